// Requests to the server: the session, the event stream, and previews.
let csrf = "";

export async function logIn() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", "/#/");
    const response = await fetch("/login", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }),
    });
    if (!response.ok) throw new Error(await response.text());
    csrf = (await response.json()).csrf;
    return;
  }
  const response = await fetch("/api/session");
  if (!response.ok) throw new Error(await response.text());
  csrf = (await response.json()).csrf;
}

export function stream(pipeline, handlers, onConnection) {
  const source = new EventSource(`/api/stream?pipeline=${encodeURIComponent(pipeline)}`);
  source.onopen = () => onConnection(true);
  source.onerror = () => onConnection(false);
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  }
  return () => source.close();
}

async function post(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-penstock-csrf": csrf },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

export async function preview(request, handlers) {
  const { id } = await post("/api/explore", request);
  const source = new EventSource(`/api/explore/${id}`);
  const close = () => source.close();
  for (const name of ["says", "columns", "rows", "end", "error"]) {
    source.addEventListener(name, (event) => {
      if (!event.data) { close(); handlers.error({ says: "the connection to the server was lost" }); return; }
      if (name === "end" || name === "error") close();
      handlers[name](JSON.parse(event.data));
    });
  }
  return { stop: async () => { close(); await post(`/api/explore/${id}/stop`, {}); } };
}
