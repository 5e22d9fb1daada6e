// Sends a request as it is, and gives the whole answer. Of a live answer by events it gives what comes
// until the reader is up to date, and hangs up.
import http from "node:http";

export class Client {
  #base;
  #agent = new http.Agent({ keepAlive: true, maxSockets: 4 });

  constructor(base) {
    this.#base = new URL(base);
  }

  ask({ method, target, headers = {}, body }) {
    const bytes = body === undefined ? undefined : Buffer.from(body);
    const options = {
      agent: this.#agent,
      host: this.#base.hostname,
      port: this.#base.port,
      method,
      path: target,
      headers: { ...headers, ...(bytes ? { "Content-Length": bytes.length } : {}) },
    };
    return new Promise((resolve, reject) => {
      const request = http.request(options, (answer) => {
        const chunks = [];
        const isLive = /event-stream/.test(answer.headers["content-type"] ?? "");
        const end = () => {
          const all = Buffer.concat(chunks);
          resolve({ status: answer.statusCode, headers: answer.headers, body: all.toString() });
        };
        answer.on("data", (chunk) => {
          chunks.push(chunk);
          const text = isLive ? Buffer.concat(chunks).toString() : "";
          if (/"(upToDate|streamClosed)":\s*true[^\n]*\n\n$/.test(text)) {
            end();
            answer.destroy();
          }
        });
        answer.on("end", end);
        answer.on("error", (error) => (isLive ? undefined : reject(error)));
      });
      request.setTimeout(20_000, () => request.destroy(new Error(`no answer: ${method} ${target}`)));
      request.on("error", reject);
      request.end(bytes);
    });
  }

  close() {
    this.#agent.destroy();
  }
}
