//! `podctl mcp`: the handoff and the pod's state as tools, for agents that speak MCP.
//!
//! The agent's CLI starts it and ends it by closing its stdin. Each call looks for the wake-up anew: a server
//! that outlives its wake-up can do nothing.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};

use crate::args::Status;
use crate::checkpoint::save_own;
use crate::context::Context;
use crate::fault::{Ended, Exit, Fault};
use crate::handoff::own;

const CANNOT: &str = "cannot serve";

/// Serves until the agent closes our stdin.
pub(crate) fn run(context: &Context) -> Ended {
    let failed = |error: &dyn std::error::Error| {
        let hint = "an agent's CLI starts it; by hand, write an MCP `initialize` request to its stdin";
        Fault::new(CANNOT, hint).caused_by(error.to_string())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(&error))?;
    let server = Server {
        context: context.clone(),
    };
    let served = runtime.block_on(async {
        match server.serve(rmcp::transport::stdio()).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| failed(&error)),
            // Nobody said a word.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    });
    // A read of stdin that never ends must not hold us up.
    runtime.shutdown_background();
    served?;
    Ok(Exit::Done)
}

struct Server {
    context: Context,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("agents-pod", env!("CARGO_PKG_VERSION")))
            .with_instructions("Hand over with pod_handoff as the last act of the session; save with pod_checkpoint on the way.")
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let answer = match request.name.as_ref() {
            "pod_handoff" => self.hand_off(&arguments),
            "pod_checkpoint" => self.checkpoint(&arguments),
            "pod_status" => self.status(),
            name => {
                let unknown = format!("there is no tool `{}`", pod_core::quoted(name, 80));
                return Err(ErrorData::invalid_params(unknown, None));
            }
        };
        // An error that the model can see and act upon, and not one of the protocol.
        Ok(match answer {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
            Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]).into(),
        })
    }
}

impl Server {
    fn hand_off(&self, arguments: &Value) -> Result<String, String> {
        let status = match arguments["status"].as_str() {
            Some("rotating") => Status::Rotating,
            Some("done") => Status::Done,
            Some(other) => {
                let other = pod_core::quoted(other, 80);
                return Err(format!("the status is `rotating` or `done`, and not `{other}`"));
            }
            None => return Err("the status is missing: it is `rotating` or `done`".to_owned()),
        };
        let summary = arguments["summary"].as_str().unwrap_or_default();
        if summary.trim().is_empty() {
            return Err(
                "the summary is missing: say what is done, what is not, and what to do next".to_owned(),
            );
        }
        let handed =
            own(&self.context, "cannot hand off").and_then(|wake_up| wake_up.hand_off(status, summary));
        handed.map_err(|fault| fault.text())?;
        Ok("The handoff is recorded. End the session now.".to_owned())
    }

    fn checkpoint(&self, arguments: &Value) -> Result<String, String> {
        let text = arguments["text"].as_str().unwrap_or_default();
        if text.trim().is_empty() {
            return Err("the text is missing: say what is done, what is not, and what to do next".to_owned());
        }
        let saved = own(&self.context, "cannot save the checkpoint").and_then(|own| save_own(&own, text));
        saved.map_err(|fault| fault.text())?;
        Ok("The checkpoint is saved. Go on with the work; this is no handoff.".to_owned())
    }

    fn status(&self) -> Result<String, String> {
        let wake_up = own(&self.context, "cannot tell the status").map_err(|fault| fault.text())?;
        let record = &wake_up.record;
        let outcomes: Vec<Value> = record
            .wake_ups
            .iter()
            .rev()
            .take(5)
            .map(|entry| json!({"n": entry.n, "outcome": entry.verdict.outcome(), "detail": entry.detail}))
            .collect();
        let status = json!({
            "pod": record.id,
            "project": record.project,
            "goal": record.goal,
            "wakeUp": record.wake().map(|current| current.n),
            "documents": wake_up.docs(),
            "failuresInARow": record.streak,
            "lastWakeUps": outcomes,
        });
        Ok(format!("{status:#}"))
    }
}

fn tools() -> Vec<Tool> {
    let handoff = json!({
        "type": "object",
        "properties": {
            "status": {
                "type": "string",
                "enum": ["rotating", "done"],
                "description": "`rotating` if another session has to go on, `done` if the whole goal is reached and checked",
            },
            "summary": {
                "type": "string",
                "description": "What is done, what is not, and what to do next",
            },
        },
        "required": ["status", "summary"],
    });
    let checkpoint = json!({
        "type": "object",
        "properties": {
            "text": {
                "type": "string",
                "description": "What is done, what is not, and what to do next, in Markdown",
            },
        },
        "required": ["text"],
    });
    vec![
        Tool::new(
            "pod_handoff",
            "Hands the work over to the next session, or declares it done. The last act of a session.",
            schema(handoff),
        ),
        Tool::new(
            "pod_checkpoint",
            "Saves a text for the case that this session is cut off: the next one is told. May be called again, and \
             replaces what was saved before. It is no handoff.",
            schema(checkpoint),
        ),
        Tool::new(
            "pod_status",
            "Tells the goal, the number of this wake-up, where the documents lie, and how the last wake-ups ended.",
            schema(json!({"type": "object", "properties": {}})),
        ),
    ]
}

fn schema(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(object) => Arc::new(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Arc::default()
        }
    }
}
