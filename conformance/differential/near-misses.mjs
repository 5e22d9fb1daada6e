// For each entry of `differences.mjs`, its witness with one thing changed so that this server would be
// wrong: no entry may excuse it. A change is made to { request, text, answers, stood }.

/// This server answers with another status.
const answers = (status) => [`this server answers ${status}`, (found) => {
  found.answers[0].status = status;
  found.text = found.text.replace(/^status \d+/, `status ${status}`);
}];
/// This server refuses for another reason.
const refuses = (code, detail = "") => [`this server says ${code}`, ({ answers: [ours] }) => {
  ours.body = JSON.stringify({ code, detail });
}];
/// The difference is another one.
const differs = (text) => [text, (found) => {
  found.text = text;
}];
/// The request has another header, or none.
const header = (name, value) => [`${name}: ${value}`, ({ request }) => {
  request.headers[name] = value;
}];
const query = (...pairs) => [`query ${JSON.stringify(pairs)}`, ({ request }) => {
  request.query = pairs;
}];
const method = (name) => [`${name} instead`, ({ request }) => {
  request.method = name;
}];
const body = (text) => [`body ${JSON.stringify(text)}`, ({ request }) => {
  request.body = text;
}];
/// This server does not say what it must say.
const silent = (name) => [`without ${name}`, ({ answers: [ours] }) => {
  delete ours.headers[name];
}];

export const NEAR_MISSES = {
  "caching is said": [
    differs('cache-control "public, max-age=31536000, immutable", theirs undefined'),
    differs('cache-control "no-cache", theirs undefined'),
    differs('cache-control undefined, theirs "no-store"'),
    query(["offset", "now"]), method("PUT"), method("HEAD"), answers(204),
  ],
  "what is malformed is refused before anything is looked up": [
    query(["offset", "-1"]), query(), query(["offset", { offset: 1, of: 0 }]), query(["live", "x"]),
    refuses("BAD_FIELD", "live is not usable"), refuses("OFFSET_INSIDE_MESSAGE"), answers(500),
  ],
  "an append without content is looked up first": [
    body("x"), header("Stream-Closed", "true"), method("PUT"), answers(409), answers(410), answers(500),
    refuses("FORK_SOURCE_NOT_FOUND"),
  ],
  "a subscription is looked up before a claim is read": [
    body('{"worker":"one"}'), answers(409), refuses("STREAM_NOT_FOUND"), method("PUT"),
  ],
  "an empty header is no value": [
    header("Stream-Seq", "a"), header("Stream-Seq", undefined), answers(409), answers(500),
    refuses("BAD_FIELD", "Stream-TTL is not usable"), refuses("INVALID_JSON"),
  ],
  "content and headers are looked at before what exists": [
    body("{}"), header("Content-Type", "text/plain"), answers(404), refuses("EMPTY_BODY"),
    refuses("BAD_FIELD", "Producer-Id is not usable"), method("GET"),
  ],
  "what is no JSON is no retry": [
    body("1"), header("Producer-Id", undefined), header("Content-Type", "text/plain"), answers(409),
    refuses("BAD_FIELD", "Stream-Seq is not usable"),
  ],
  "a close keeps the order of Stream-Seq": [
    header("Stream-Seq", undefined), header("Stream-Closed", undefined), body("x"), answers(400),
    refuses("STREAM_CLOSED"), refuses("PRODUCER_SEQUENCE_GAP"),
  ],
  "tags come with content only": [method("GET"), differs("etag is there: true, theirs false")],
  "If-None-Match: * matches what is there": [
    header("If-None-Match", '"x"'), header("If-None-Match", { tag: 0 }), answers(200), answers(412),
    method("HEAD"),
  ],
  "one range has one tag": [
    header("If-None-Match", undefined), answers(204), method("HEAD"),
    ["a tag that was not given out", ({ stood }) => delete stood.known],
    ["another tag in the answer", ({ answers: [ours] }) => {
      ours.headers.etag = '"other"';
    }],
    ["the offset that the tag was given for", ({ stood }) => {
      stood.offset = stood.known.offset;
    }],
  ],
  "a live mode that is none is refused": [
    query(["offset", "-1"], ["live", "sse"]), query(["offset", "-1"]), answers(404),
    refuses("BAD_FIELD", "offset is not usable"), method("HEAD"),
  ],
  "Stream-Closed is true in any case": [
    header("Stream-Closed", "true"), header("Stream-Closed", "1"), header("Stream-Closed", undefined),
    body("x"), method("PUT"), answers(200), answers(500),
  ],
  "a duplicate is told the tail": [
    header("Producer-Id", undefined), silent("producer-seq"), answers(200), method("PUT"),
    differs("stream-next-offset is there: false, theirs true"),
  ],
  "a duplicate closes nothing": [
    header("Producer-Id", undefined), header("Stream-Closed", undefined), silent("producer-seq"),
    body("x"), answers(200), differs('stream-closed "true", theirs undefined'),
  ],
  "304 says that the stream is closed": [
    answers(200), method("HEAD"), differs('stream-closed undefined, theirs "true"'),
  ],
  "a poll that brings nothing has no tag": [
    header("If-None-Match", undefined), query(["offset", "-1"]), answers(200), answers(404),
    silent("stream-up-to-date"),
  ],
  "JSON is JSON in any case": [
    differs('body [1], theirs ""'), differs('body [], theirs [1]'), method("HEAD"),
    ["a type in lower case", ({ answers: [ours] }) => {
      ours.headers["content-type"] = "application/json";
    }],
  ],
  "a poll that brings nothing is 204": [
    query(["offset", "-1"]), silent("stream-up-to-date"), answers(404),
    ["theirs has content", ({ answers: [, theirs] }) => {
      theirs.body = "x";
    }],
  ],
  "a cursor comes with the end, too": [
    query(["offset", "-1"]), silent("stream-closed"), differs("stream-cursor is there: false, theirs true"),
  ],
  "events that are the end alone say so in their head": [
    query(["offset", "-1"], ["live", "sse"]), query(["offset", "now"]), method("HEAD"), answers(204),
    silent("stream-up-to-date"), silent("stream-closed"), silent("stream-next-offset"),
    differs('stream-closed undefined, theirs "true"'), differs('body {}, theirs {"upToDate":true}'),
    ["the end is another one", ({ answers: [ours] }) => {
      ours.headers["stream-next-offset"] = "0000000000000000_0000000000000000";
    }],
    ["an event that does not end the stream", ({ answers: [ours] }) => {
      ours.body = ours.body.replace('"streamClosed":true', '"streamClosed":false');
    }],
    ["content before the end", ({ answers: [ours] }) => {
      ours.body = `event: data\ndata:x\n\n${ours.body}`;
    }],
  ],
  "no webhooks to IPv6 loopback": [
    body('{"type":"webhook","webhook":{"url":"https://example.org/"},"pattern":"d/*"}'), answers(404),
    refuses("INVALID_REQUEST"), method("POST"),
  ],
  "a subscription that is not there cannot be deleted": [
    method("GET"), answers(500), refuses("STREAM_NOT_FOUND"),
    ["a stream", ({ request }) => {
      request.path = "d/x";
    }],
  ],
};
