// Sends the same requests to two servers, one by one, and collects in what their answers differ. A
// stream whose answers differed is given up: what follows is asked of another name.
import { Client } from "./client.mjs";
import { differences, Offsets } from "./compare.mjs";
import { explain } from "./differences.mjs";
import { Generator, homeType, SLOTS } from "./generate.mjs";
import { Dice } from "./random.mjs";

/// What one server has said that later requests bring back.
class Memory {
  /// Of each slot the last tag, what it was the tag of, and by which offset that was asked for.
  tags = {};
  tokens = {};
  wakes = {};
}

/// Gives { explained: {id: count}, unexplained: [text], statuses: {"PUT 201": count} }.
export async function compare({ seed, count, bases }) {
  const generator = new Generator(new Dice(seed));
  const pair = new Pair(bases, String(seed), (slot) => generator.forget(slot));
  await pair.makeAll();
  for (let number = 0; number < count; number += 1) await pair.compare(generator.next(pair.names));
  pair.close();
  return pair.result;
}

/// Two servers, this one first, and what is known of both.
export class Pair {
  result = { explained: {}, unexplained: [], statuses: {} };
  names;
  #clients;
  #memories;
  #offsets;
  #series;
  #asked = 0;
  #renamed = 0;
  #onRename;

  /// `series` begins the names of its streams.
  constructor(bases, series, onRename = () => {}) {
    this.#clients = bases.map((base) => new Client(base));
    this.#memories = bases.map(() => new Memory());
    this.#series = series;
    this.names = Array.from({ length: SLOTS }, (_, slot) => `d/${series}-${slot}`);
    this.#offsets = this.names.map(() => new Offsets());
    this.#onRename = onRename;
  }

  /// Makes the stream of every slot.
  async makeAll() {
    for (const slot of this.names.keys()) await this.#make(slot);
  }

  /// Asks both, and gives { text, id, request, answers, stood } for each difference.
  async compare(request) {
    this.#asked += 1;
    if (request.isFresh) {
      // What was there is deleted, and stays where it has forks.
      await this.#remove(request.slot);
      this.#rename(request.slot);
      request.path = this.names[request.slot];
    }
    const stood = {
      known: this.#memories[0].tags[request.headers["If-None-Match"]?.tag],
      offset: offsetOf(this.#filled(request, 0).target),
    };
    const answers = await this.#ask(request);
    this.#count(request, answers[0]);
    remember(request, stood.offset, answers, this.#memories);
    if (request.method === "DELETE" && answers.every(({ status }) => status < 300)) {
      this.#offsets[request.slot] = new Offsets();
    }
    const found = this.#note(request, answers, stood);
    if (isUnequalOfTag(request, answers)) found.push(...await this.#withoutTag(request, answers, stood));
    if (isUnequalOfCase(request, answers)) await this.#inLowerCase(request, answers[0]);
    await this.#giveUp(request, found);
    return found;
  }

  close() {
    this.#clients.forEach((client) => client.close());
  }

  #ask(request) {
    return Promise.all(this.#clients.map((client, side) => client.ask(this.#filled(request, side))));
  }

  #count(request, { status }) {
    const kind = request.path.startsWith("__ds/") ? `__ds ${request.method}` : request.method;
    const { statuses } = this.result;
    statuses[`${kind} ${status}`] = (statuses[`${kind} ${status}`] ?? 0) + 1;
  }

  /// Sorts differences into those that are explained and the others.
  #note(request, answers, stood) {
    const { explained, unexplained } = this.result;
    const found = differences(request, ...answers, this.#offsets[request.slot]);
    return found.map((text) => {
      const id = explain(request, text, answers, stood);
      if (id) explained[id] = (explained[id] ?? 0) + 1;
      else {
        const sides = answers.map(({ status, body }) => `${status} ${body.slice(0, 200)}`).join(" | ");
        unexplained.push(`${this.#asked - 1}: ${JSON.stringify(request)}: ${text} | ${sides}`);
      }
      return { text, id, request, answers, stood };
    });
  }

  /// Asks again without the tag: what both have must be the same, and 304 must not have stood for
  /// something else than what the tag was given with.
  async #withoutTag(request, answers, stood) {
    const plain = { ...request, headers: { ...request.headers, "If-None-Match": undefined } };
    const whole = await this.#ask(plain);
    const found = this.#note(plain, whole, stood);
    const { known } = stood;
    if (answers[0].status === 304 && known && known.body !== whole[0].body) {
      this.result.unexplained.push(`${this.#asked - 1}: ${JSON.stringify(request)}: 304 of ${known.etag}, `
        + `given with ${JSON.stringify(known.body)}, for ${JSON.stringify(whole[0].body)}`);
    }
    return found;
  }

  /// Asks the other server again in the case that it takes: now it must answer as this one did.
  async #inLowerCase(request, ours) {
    const lower = { ...request, headers: { ...request.headers, "Stream-Closed": "true" } };
    const theirs = await this.#clients[1].ask(this.#filled(lower, 1));
    this.#note(lower, [ours, theirs], {});
  }

  /// Takes away what would go on otherwise for each server.
  async #giveUp(request, found) {
    // What no state depends on is no reason to begin anew.
    const isStateful = request.method !== "GET" && request.method !== "HEAD";
    const counts = ({ text }) => isStateful || !text.startsWith("cache-control");
    if (!found.some(counts)) return;
    if (request.path.startsWith("__ds/")) {
      const [, , id] = request.path.split("/");
      const gone = { method: "DELETE", target: target(`__ds/subscriptions/${id}`) };
      if (id) await Promise.all(this.#clients.map((client) => client.ask(gone)));
      return;
    }
    await this.#remove(request.slot);
    this.#rename(request.slot);
    await this.#make(request.slot);
  }

  #rename(slot) {
    this.#renamed += 1;
    this.names[slot] = `d/${this.#series}-${slot}-${this.#renamed}`;
    this.#offsets[slot] = new Offsets();
    this.#onRename(slot);
  }

  /// Makes an empty stream of its slot's kind.
  #make(slot) {
    const made = { method: "PUT", target: target(this.names[slot]), headers: {} };
    made.headers["Content-Type"] = homeType(slot);
    return Promise.all(this.#clients.map((client) => client.ask(made)));
  }

  #remove(slot) {
    const gone = { method: "DELETE", target: target(this.names[slot]) };
    return Promise.all(this.#clients.map((client) => client.ask(gone)));
  }

  /// Spells a request for one server.
  #filled(request, side) {
    const memory = this.#memories[side];
    const value = (given) => {
      if (typeof given !== "object" || given === null) return given;
      if ("offset" in given) {
        const { pairs } = this.#offsets[given.of];
        return pairs.length === 0 ? "-1" : pairs[given.offset % pairs.length][side];
      }
      if ("tag" in given) return memory.tags[given.tag]?.etag ?? '"none"';
      if ("token" in given) return `Bearer ${memory.tokens[given.token] ?? "none"}`;
      throw new Error(`what is ${JSON.stringify(given)}`);
    };
    const pairs = request.query.map(([name, given]) => `${name}=${value(given)}`);
    const headers = {};
    for (const [name, given] of Object.entries(request.headers)) {
      if (given !== undefined) headers[name] = value(given);
    }
    let body = request.body;
    if (typeof body === "object") {
      const wake = memory.wakes[body.wake] ?? { wake_id: "w", generation: 1 };
      body = JSON.stringify({ ...wake, done: body.done });
    }
    const query = pairs.length > 0 ? `?${pairs.join("&")}` : "";
    return { method: request.method, target: target(request.path, query), headers, body };
  }
}

/// Whether one server took a tag as that of what it has, and the other did not.
function isUnequalOfTag({ headers }, answers) {
  const isKnown = answers.map(({ status }) => status === 304);
  return headers["If-None-Match"] !== undefined && isKnown[0] !== isKnown[1];
}

/// Whether the other server did nothing where this one closes, for the case of a letter.
function isUnequalOfCase({ headers }, [ours, theirs]) {
  return headers["Stream-Closed"] === "TRUE" && ours.status !== theirs.status;
}

function target(path, query = "") {
  return `/v1/stream/${path}${query}`;
}

/// The offset that a read asks for.
function offsetOf(target) {
  return new URLSearchParams(target.split("?")[1]).get("offset") ?? "-1";
}

function remember(request, offset, answers, memories) {
  answers.forEach((answer, side) => {
    const memory = memories[side];
    const { etag } = answer.headers;
    if (etag && request.method === "GET" && answer.status === 200) {
      memory.tags[request.slot] = { etag, offset, body: answer.body };
    }
    if (request.path.endsWith("/claim") && answer.status === 200) {
      const [, , id] = request.path.split("/");
      const { token, wake_id, generation } = JSON.parse(answer.body);
      memory.tokens[id] = token;
      memory.wakes[id] = { wake_id, generation };
    }
  });
}
