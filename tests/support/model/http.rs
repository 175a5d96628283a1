//! As much of HTTP/1.1 as a model speaks: requests with a length or in chunks, answers whole or in chunks.

use std::io::{self, BufRead, Read, Write};

use super::script::Reply;

/// A request as it came.
#[derive(Debug)]
pub(super) struct RawRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Reads one request; `None` where the other side has closed in front of it.
pub(super) fn read_request(from: &mut impl BufRead) -> io::Result<Option<RawRequest>> {
    let first = line(from)?;
    if first.is_empty() {
        return Ok(None);
    }
    let mut words = first.split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(bad("no request line"));
    };
    let mut headers = Vec::new();
    loop {
        let next = line(from)?;
        if next.is_empty() {
            break;
        }
        let (key, value) = next
            .split_once(':')
            .ok_or_else(|| bad("a header without a colon"))?;
        headers.push((key.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let body = if header(&headers, "transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        read_chunks(from)?
    } else {
        let length = header(&headers, "content-length").unwrap_or("0");
        let mut body = vec![0; length.parse().map_err(|_| bad("a length that is no number"))?];
        from.read_exact(&mut body)?;
        body
    };
    Ok(Some(RawRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        body,
    }))
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(from)?;
        let digits = size.split(';').next().unwrap_or_default();
        let size = u64::from_str_radix(digits.trim(), 16).map_err(|_| bad("a chunk without a size"))?;
        if size == 0 {
            line(from)?;
            return Ok(body);
        }
        from.by_ref().take(size).read_to_end(&mut body)?;
        line(from)?;
    }
}

/// Writes an answer that is there as a whole.
pub(super) fn write_whole(to: &mut impl Write, status: u16, reply: &Reply, body: &str) -> io::Result<()> {
    write_head(
        to,
        status,
        "application/json",
        reply,
        &format!("content-length: {}", body.len()),
    )?;
    to.write_all(body.as_bytes())?;
    to.flush()
}

/// Writes an answer without a body.
pub(super) fn write_empty(to: &mut impl Write) -> io::Result<()> {
    to.write_all(b"HTTP/1.1 200 Scripted\r\ncontent-length: 0\r\n\r\n")?;
    to.flush()
}

/// Writes the head of an answer that comes in chunks.
pub(super) fn write_stream_head(to: &mut impl Write, reply: &Reply) -> io::Result<()> {
    write_head(to, 200, "text/event-stream", reply, "transfer-encoding: chunked")
}

fn write_head(to: &mut impl Write, status: u16, kind: &str, reply: &Reply, framing: &str) -> io::Result<()> {
    write!(
        to,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\n{framing}\r\n"
    )?;
    for (name, value) in &reply.headers {
        write!(to, "{name}: {value}\r\n")?;
    }
    to.write_all(b"\r\n")?;
    to.flush()
}

/// Writes one chunk; an empty one ends the answer.
pub(super) fn write_chunk(to: &mut impl Write, chunk: &str) -> io::Result<()> {
    write!(to, "{:x}\r\n{chunk}\r\n", chunk.len())?;
    to.flush()
}
