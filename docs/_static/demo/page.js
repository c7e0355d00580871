// The page docs/demo.md: what is typed is tagged by the model that the page holds, or by a file that is dropped on it.
"use strict";

(() => {
  const find = (id) => document.getElementById(id);
  const percent = (p) => (p > 0.9995 ? "100" : (100 * p).toFixed(1)) + " %";
  const words = (text) => text.match(/\S+/g) || [];
  // the tokens of usaddress: words with the commas and brackets before and after them; "#" and "&" are tokens
  const ofAddress = (text) => text.replace(/#(?=\S)/g, "# ").match(/\(*[^\s,;#&()]+[.,;)\n]*|[#&]/g) || [];
  let tagger = null, split = words;

  function element(name, text, of) {
    const made = document.createElement(name);
    made.textContent = text;
    Object.assign(made, of);
    return made;
  }

  function show() {
    if (tagger === null) return;
    const start = performance.now(), tokens = split(find("demo-text").value);
    try {
      const { segments, nbest } = tagger.tag(tokens), names = [...new Set(tagger.names)];
      const fields = segments.map(({ start: a, stop: b, name, probability }) => {
        const field = element("span", "", { className: "demo-field" });
        field.style.setProperty("--hue", Math.round(137.5 * names.indexOf(name)) % 360); // neighbours differ
        field.append(element("b", tokens.slice(a, b).join(" ")), element("small", `${name}, ${percent(probability)}`));
        return field;
      });
      find("demo-fields").replaceChildren(...fields);
      const rows = nbest.map(({ labels, probability }) => {
        const row = document.createElement("tr"), cell = element("td", "");
        labels.forEach((label, t) => {
          const name = label === nbest[0].labels[t] ? "span" : "mark";
          cell.append(element(name, String(label), { title: tokens[t] }), " ");
        });
        row.append(element("td", percent(probability)), cell);
        return row;
      });
      find("demo-best").replaceChildren(...rows);
      find("demo-time").textContent = `${(performance.now() - start).toFixed(0)} ms in this browser`;
    } catch (error) {
      find("demo-time").textContent = error.message;
    }
  }

  function load(buffer, name, splitter) {
    try {
      tagger = new HOCRF.Tagger(buffer);
      split = splitter;
      find("demo-model").textContent = `${name}, ${tagger.labels.length} labels, ${tagger.arcs.length} states`;
      show();
    } catch (error) {
      find("demo-model").textContent = `${name}: ${error.message}`;
    }
  }

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  }

  document.addEventListener("DOMContentLoaded", async () => {
    find("demo-text").addEventListener("input", show);
    find("demo-drop").addEventListener("dragover", (event) => event.preventDefault());
    find("demo-drop").addEventListener("drop", async (event) => {
      event.preventDefault();
      const [file] = event.dataTransfer.files;
      if (file) load(await file.arrayBuffer(), file.name, words);
    });
    load(await unpacked(ADDRESSES), "addresses", ofAddress);
  });
})();
