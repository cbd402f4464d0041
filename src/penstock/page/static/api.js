// Everything that goes over the wire: the session, the stream of news, and looks.
let proof = "";

export async function enter() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", "/#/");
    const answer = await fetch("/login", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token: given }),
    });
    if (!answer.ok) throw new Error(await answer.text());
    proof = (await answer.json()).proof;
    return;
  }
  const answer = await fetch("/api/session");
  if (!answer.ok) throw new Error(await answer.text());
  proof = (await answer.json()).proof;
}

export function stream(pipeline, handlers, linked) {
  const source = new EventSource(`/api/stream?pipeline=${encodeURIComponent(pipeline)}`);
  source.onopen = () => linked(true);
  source.onerror = () => linked(false);
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  }
  return () => source.close();
}

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-penstock-proof": proof },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

export async function look(asked, handlers) {
  const { id } = await post("/api/explore", asked);
  const source = new EventSource(`/api/explore/${id}`);
  const close = () => source.close();
  for (const name of ["says", "columns", "rows", "end", "error"]) {
    source.addEventListener(name, (event) => {
      if (!event.data) { close(); handlers.error({ says: "the page has lost the server" }); return; }
      if (name === "end" || name === "error") close();
      handlers[name](JSON.parse(event.data));
    });
  }
  return { stop: async () => { close(); await post(`/api/explore/${id}/stop`, {}); } };
}
