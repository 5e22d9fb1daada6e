// Makes requests from a seed. Offsets, tags and tokens are named, not spelled: each server has its own.
//
// A request is { method, path, query, headers, body, slot, isFresh }: values that are objects { offset: n } and
// the like are filled in for each server by `run.mjs` from what that server has said.

const TYPES = [
  [6, "text/plain"],
  [6, "application/json"],
  [4, "application/octet-stream"],
  [1, "Text/PLAIN; charset=utf-8"],
  [1, "APPLICATION/json;charset=utf-8"],
  [1, undefined],
];
const JSON_BODIES = [
  '{"a":1}', "[1,2,3]", '[[1,2],[3]]', '"text"', "0", "null", " [ 1 , {\"b\" : [ ] } ] ",
  '[{"id":1},{"id":2}]', "[]", "{", "", "[1,]", "nul", '"\\ud800"', "1 2",
];
const TEXT_BODIES = ["hello", "a\nb", "data: x\n\nevent: control\n", "\r\r\n", "é", "", "x".repeat(300)];
const CLOSED = [
  [10, undefined],
  [2, "true"],
  [1, "TRUE"],
  [1, "false"],
  [1, "1"],
];
/// Slots: a name is used by one stream at a time, and its kind rules what most requests bring.
export const SLOTS = 8;

/// What most requests about a slot's stream say that it holds.
export function homeType(slot) {
  return ["text/plain", "application/json", "application/octet-stream"][slot % 3];
}

export class Generator {
  #dice;
  #producers = new Map();
  #count = 0;

  constructor(dice) {
    this.#dice = dice;
  }

  /// The next request; `names[slot]` is the stream's name now.
  next(names) {
    this.#count += 1;
    const dice = this.#dice;
    const slot = dice.below(SLOTS);
    const request = dice.weighted([
      [16, () => this.#put(names, slot)],
      [34, () => this.#post(slot)],
      [26, () => this.#get(slot)],
      [6, () => ({ method: "HEAD" })],
      [3, () => ({ method: "DELETE" })],
      [2, () => ({ method: dice.pick(["OPTIONS", "PATCH", "TRACE"]) })],
      [11, () => this.#subscription(names)],
    ])();
    return { number: this.#count, slot, path: names[slot], query: [], headers: {}, ...request };
  }

  /// A stream's name was given up: its producers begin anew.
  forget(slot) {
    for (const key of this.#producers.keys()) {
      if (key.startsWith(`${slot} `)) this.#producers.delete(key);
    }
  }

  #body(type) {
    return this.#dice.pick(/json/i.test(type ?? "") ? JSON_BODIES : TEXT_BODIES);
  }

  #type(slot) {
    // Most requests of a slot agree on its type.
    return this.#dice.oneIn(8) ? this.#dice.weighted(TYPES) : homeType(slot);
  }

  #put(names, slot) {
    const dice = this.#dice;
    const type = this.#type(slot);
    const headers = {
      "Content-Type": type,
      "Stream-Closed": dice.weighted(CLOSED),
      "Stream-TTL": dice.weighted([
        [40, undefined], [6, "3600"], [2, "7200"], [1, "01"], [1, "-1"], [1, "1.5"], [1, "1e3"],
        [1, ""], [1, "+1"],
      ]),
      "Stream-Expires-At": dice.weighted([
        [40, undefined], [3, "2099-01-01T00:00:00Z"], [1, "2099-01-01T00:00:00.5+02:00"],
        [1, "tomorrow"], [1, "2099-13-01T00:00:00Z"],
      ]),
    };
    if (dice.oneIn(3)) {
      const source = dice.below(SLOTS);
      headers["Stream-Forked-From"] = dice.weighted([
        [9, `/v1/stream/${names[source]}`], [1, "/v1/stream/never"], [1, "never"], [1, ""],
      ]);
      headers["Stream-Fork-Offset"] = dice.weighted([
        [4, undefined], [6, { offset: dice.below(6), of: source }], [1, "-1"], [1, "now"], [1, "x"],
        [1, "9999999999999999_9999999999999999"],
      ]);
      headers["Stream-Fork-Sub-Offset"] = dice.weighted([
        [8, undefined], [2, "0"], [2, "1"], [2, "2"], [2, "3"], [2, "6"], [1, "5000"], [1, "01"],
        [1, "-1"], [1, "x"],
      ]);
      if (dice.oneIn(2)) headers["Content-Type"] = undefined;
    }
    const body = dice.oneIn(2) ? undefined : this.#body(type);
    // Mostly of a name that is free.
    return { method: "PUT", headers, body, isFresh: dice.below(4) > 0 };
  }

  #post(slot) {
    const dice = this.#dice;
    const type = this.#type(slot);
    const closed = dice.oneIn(4) ? dice.weighted(CLOSED) : undefined;
    const headers = { "Content-Type": type, "Stream-Closed": closed };
    if (dice.oneIn(6)) headers["Stream-Seq"] = dice.pick(["a", "b", "c", "10", "9", "z", ""]);
    if (dice.oneIn(2)) Object.assign(headers, this.#producer(slot));
    const body = dice.oneIn(8) ? "" : this.#body(type);
    return { method: "POST", headers, body };
  }

  #producer(slot) {
    const dice = this.#dice;
    const id = dice.pick(["p", "q"]);
    const key = `${slot} ${id}`;
    const state = this.#producers.get(key) ?? { epoch: 0, seq: 0 };
    const made = dice.weighted([
      [12, { ...state }],
      [3, { epoch: state.epoch, seq: Math.max(0, state.seq - 1) }],
      [1, { epoch: state.epoch, seq: 0 }],
      [1, { epoch: state.epoch, seq: state.seq + 1 }],
      [1, { epoch: state.epoch + 1, seq: 0 }],
      [1, { epoch: state.epoch + 1, seq: 1 }],
      [1, { epoch: Math.max(0, state.epoch - 1), seq: state.seq }],
    ]);
    // A guess that is mostly right: what was refused is found out by later ones.
    if (made.epoch > state.epoch ? made.seq === 0 : made.seq === state.seq) {
      this.#producers.set(key, { epoch: made.epoch, seq: made.seq + 1 });
    }
    const headers = {
      "Producer-Id": id,
      "Producer-Epoch": String(made.epoch),
      "Producer-Seq": String(made.seq),
    };
    if (dice.oneIn(12)) {
      const name = dice.pick(Object.keys(headers));
      headers[name] = dice.pick([undefined, "", "x", "-1", "01", "1.0", "9007199254740992", " "]);
    }
    return headers;
  }

  #get(slot) {
    const dice = this.#dice;
    const offset = dice.weighted([
      [3, undefined], [4, "-1"], [2, "now"], [9, { offset: dice.below(6), of: slot }], [1, ""],
      [1, "x"], [1, "0"], [1, "9999999999999999_9999999999999999"], [1, "a,b"],
      [1, "0000000000000000_0000000000000000"],
    ]);
    const query = [];
    if (offset !== undefined) query.push(["offset", offset]);
    if (dice.oneIn(24)) query.push(["offset", "-1"]);
    if (dice.oneIn(10)) query.push(["unknown", "1"]);
    const live = dice.weighted([
      [16, undefined], [1, "long-poll"], [2, "sse"], [1, "true"], [1, ""],
    ]);
    if (live !== undefined) query.push(["live", live]);
    if (live !== undefined && dice.oneIn(4)) query.push(["cursor", dice.pick(["1", "x", "9999999999"])]);
    const headers = {};
    if (dice.oneIn(6)) headers["If-None-Match"] = dice.pick([{ tag: slot }, { tag: slot }, "*", '"x"']);
    return { method: "GET", query, headers };
  }

  #subscription(names) {
    const dice = this.#dice;
    const id = dice.pick(["s0", "s1", "s2"]);
    const path = `__ds/subscriptions/${id}`;
    const json = { "Content-Type": "application/json" };
    const stream = names[dice.below(SLOTS)];
    return dice.weighted([
      [6, () => ({ method: "PUT", path, headers: json, body: this.#config(stream) })],
      [3, () => ({ method: "GET", path })],
      [1, () => ({ method: "DELETE", path })],
      [1, () => ({ method: "POST", path: `${path}/streams`, headers: json,
        body: JSON.stringify({ streams: [stream] }) })],
      [1, () => ({ method: "DELETE", path: `${path}/streams/${encodeURIComponent(stream)}` })],
      [2, () => ({ method: "POST", path: `${path}/claim`, headers: json,
        body: JSON.stringify({ worker: dice.pick(["one", "two", ""]) }) })],
      [2, () => ({ method: "POST", path: `${path}/${dice.pick(["ack", "release"])}`,
        headers: { ...json, Authorization: { token: id } }, body: { wake: id, done: dice.oneIn(2) } })],
      [1, () => ({ method: "GET", path: "__ds/jwks.json" })],
    ])();
  }

  #config(stream) {
    const dice = this.#dice;
    const config = dice.weighted([
      [6, { type: "pull-wake", wake_stream: "wakes" }],
      [2, { type: "webhook", webhook: { url: dice.pick([
        "http://127.0.0.1:9/hook", "https://10.0.0.1/", "https://169.254.169.254/", "ftp://x/",
        "http://example.org/", "not a url", "https://[::1]/", "http://localhost:9/hook",
      ]) } }],
      [1, { type: "other" }],
      [1, {}],
    ]);
    const follows = dice.weighted([
      [3, { pattern: "d/*" }], [2, { streams: [stream] }], [1, { pattern: "**" }], [1, {}],
      [1, { pattern: "d/*", streams: [stream] }],
    ]);
    const lease = dice.weighted([
      [6, {}], [1, { lease_ttl_ms: 30000 }], [1, { lease_ttl_ms: 999 }], [1, { lease_ttl_ms: 1e9 }],
    ]);
    return JSON.stringify({ ...config, ...follows, ...lease });
  }
}
