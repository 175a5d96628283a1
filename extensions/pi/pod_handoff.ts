// Gives the pi coding agent a tool that writes HANDOFF.md and ends the run, and one that saves a checkpoint.
//
// It imports nothing but node's own modules and describes its parameters by a plain JSON schema, so that one
// file serves every version of pi.
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const STATUSES = ["rotating", "done"];

// A reader sees the old file or the new one: a half-written head would declare nothing.
function replaceFile(path: string, text: string) {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    const file = openSync(temporary, "wx", 0o644);
    try {
      writeFileSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

export default function (pi: any) {
  pi.registerTool({
    name: "pod_handoff",
    label: "Pod handoff",
    description:
      "Write HANDOFF.md and end this wake-up. Call it once, as the last thing you do, when the other documents are up to date. " +
      "`rotating`: work remains, and the next wake-up goes on from your summary. " +
      "`done`: the goal is reached and nothing remains; the pod is never woken again.",
    parameters: {
      type: "object",
      properties: {
        // No enum: pi 0.73 would refuse another word without naming those that are allowed.
        status: { type: "string", description: "`rotating` if work remains, `done` if the goal is reached; no other word" },
        summary: {
          type: "string",
          description: "What was done, what is verified, and what the next wake-up should do first",
        },
      },
      required: ["status", "summary"],
    },
    async execute(_id: string, params: any) {
      const { status, summary } = params;
      if (!STATUSES.includes(status)) {
        throw new Error(`pod_handoff: the status is \`rotating\` or \`done\`, not \`${status}\`; HANDOFF.md is unchanged`);
      }
      const docs = process.env.AGENTS_POD_DOCS_DIR;
      if (!docs) {
        throw new Error("pod_handoff: AGENTS_POD_DOCS_DIR is not set, so this is no wake-up of a pod; nothing was written");
      }
      replaceFile(join(docs, "HANDOFF.md"), `status: ${status}\n\n${summary}\n`);
      return {
        content: [{ type: "text", text: `HANDOFF.md says \`status: ${status}\`. This wake-up ends now.` }],
        details: { status },
        terminate: true,
      };
    },
  });

  pi.registerTool({
    name: "pod_checkpoint",
    label: "Pod checkpoint",
    description:
      "Save a text for the case that this session is cut off: the next one is told. May be called again, and replaces " +
      "what was saved before. It is no handoff: the session goes on.",
    parameters: {
      type: "object",
      properties: {
        text: { type: "string", description: "What is done, what is not, and what to do next, in Markdown" },
      },
      required: ["text"],
    },
    async execute(_id: string, params: any) {
      const saved = spawnSync("podctl", ["checkpoint", "--save", "-"], { input: params.text, encoding: "utf8" });
      if (saved.status !== 0) {
        throw new Error(`pod_checkpoint: ${saved.error?.message ?? saved.stderr}`);
      }
      return {
        content: [{ type: "text", text: "The checkpoint is saved. Go on with the work; this is no handoff." }],
        details: {},
      };
    },
  });
}
