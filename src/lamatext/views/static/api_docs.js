// The API documentation page: sends the requests that its forms contain and shows the responses.

async function send(form) {
  const { method, path } = form.dataset;
  const body = form.querySelector("textarea")?.value;
  const key = document.getElementById("secret")?.value;
  const headers = {
    ...(body !== undefined && { "Content-Type": "application/json" }),
    ...(key && { Authorization: `Bearer ${key}` }),
  };
  const answer = form.querySelector(".answer");
  answer.hidden = false;
  answer.textContent = "…";
  try {
    const response = await fetch(path.slice(1), { method, headers, body });
    const text = await response.text();
    const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
    const shown = isJson ? JSON.stringify(JSON.parse(text), null, 2) : text;
    answer.textContent = `${response.status} ${response.statusText}\n${shown}`;
  } catch (error) {
    answer.textContent = error.message;
  }
}

for (const form of document.querySelectorAll("form.try")) {
  form.addEventListener("submit", event => {
    event.preventDefault();
    send(form);
  });
  for (const example of form.querySelectorAll(".example")) {
    example.addEventListener("click", () => {
      form.querySelector("textarea").value = example.dataset.body;
    });
  }
}
