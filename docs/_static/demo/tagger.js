// A reader of the files of sklearn_hocrf.tagger.export_tagger, for browsers and node; no library, no build step.
// docs/api/tagger_file.md describes the format. Files must be written with compress=False.
"use strict";

const HOCRF = (() => {
  const TYPES = {
    U8: Uint8Array, U16: Uint16Array, U32: Uint32Array, U64: BigUint64Array, F32: Float32Array, F64: Float64Array,
  };
  const PREFIXES = { bio: "BIO", bioes: "BIOES", bilou: "BIOLU", bmes: "BMOES", iob1: "BIO" };

  function require(condition, what) {
    if (!condition) throw new Error(what);
  }

  // --- functions of tokens, as Python has them ------------------------------------------------------------------

  const IS_DIGIT = /[\p{Nd}\u00B2\u00B3\u00B9\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468]/u;
  const characters = (text) => [...text]; // of code points, as in Python
  const every = (pattern) => (text) => text !== "" && characters(text).every((one) => pattern.test(one));
  const isUpper = (text) => /\p{Uppercase}/u.test(text) && !/\p{Lowercase}|\p{Lt}/u.test(text);

  function isTitle(text) {
    let cased = false, found = false;
    for (const one of characters(text)) {
      if (/\p{Uppercase}|\p{Lt}/u.test(one)) {
        if (cased) return false;
        cased = found = true;
      } else if (/\p{Lowercase}/u.test(one)) {
        if (!cased) return false;
        found = true;
      } else cased = false;
    }
    return found;
  }

  const classOf = (one) => (isUpper(one) ? "X" : /\p{L}/u.test(one) ? "x" : IS_DIGIT.test(one) ? "d" : one);
  const longShape = (text) => characters(text).map(classOf);
  const FUNCTIONS = {
    lower: (text) => text.toLowerCase(),
    shape: (text) => longShape(text).filter((one, i, all) => one !== all[i - 1]).join(""),
    long_shape: (text) => longShape(text).join(""),
    is_alpha: every(/\p{L}/u),
    is_digit: every(IS_DIGIT),
    is_lower: (text) => /\p{Lowercase}/u.test(text) && !/\p{Uppercase}|\p{Lt}/u.test(text),
    is_punctuation: every(/\p{P}/u),
    is_title: isTitle,
    is_upper: isUpper,
    has_digit: (text) => IS_DIGIT.test(text),
    has_hyphen: (text) => text.includes("-"),
    length: (text) => characters(text).length,
  };

  function namedFunction(name) {
    if (name === null) return (text) => text;
    const affix = /^(prefix|suffix)([1-9]\d*)$/.exec(name);
    if (affix && affix[1] === "prefix") return (text) => characters(text).slice(0, Number(affix[2])).join("");
    if (affix) return (text) => characters(text).slice(-Number(affix[2])).join("");
    require(FUNCTIONS[name], `the model needs the function ${name}, which only its author has`);
    return FUNCTIONS[name];
  }

  // --- the file ---------------------------------------------------------------------------------------------------

  function readFile(buffer) {
    const size = buffer.byteLength < 8 ? 0 : Number(new DataView(buffer).getBigUint64(0, true));
    require(size > 0 && 8 + size <= buffer.byteLength, "This is not a file of export_tagger.");
    const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
    require(metadata && metadata.hocrf, "This is not a file of export_tagger.");
    const header = JSON.parse(metadata.hocrf), arrays = {};
    require(header.format === 1, "This is a file of another version.");
    require(!Object.keys(header.packed).length, "The file is compressed: export the model with compress=False.");
    for (const [name, { dtype, shape, data_offsets: [start] }] of Object.entries(entries)) {
      const values = new TYPES[dtype](buffer, 8 + size + start, shape.reduce((a, b) => a * b, 1));
      arrays[name] = dtype === "U64" ? Array.from(values, Number) : values;
    }
    return [header, arrays];
  }

  function offsetsOf(counts) {
    const offsets = [0];
    for (const n of counts) offsets.push(offsets[offsets.length - 1] + Number(n));
    return offsets;
  }

  // --- features: templates over the texts of tokens ---------------------------------------------------------------

  class Templates {
    constructor(features, arrays, take) {
      require(!features.phrases, "The model has lists of phrases, which this page does not read.");
      require(features.fields.length === 1, "The tokens have several columns, which cannot be typed here.");
      require(!features.fields[0].numeric, "The tokens of the model are numbers, which cannot be typed here.");
      this.marks = features.marks;
      this.columns = features.columns.map((entry) => {
        const values = entry.numeric ? [true] : take(entry.values);
        return { apply: namedFunction(entry.function), numeric: entry.numeric, codes: new Map(values.map((v, i) => [v, i])) };
      });
      const code = arrays.code.slice(); // differences, modulo the range of their type
      for (let i = 1; i < code.length; i++) code[i] += code[i - 1];
      let place = 0, first = 0;
      this.templates = features.templates.map(({ places, attributes }) => {
        const ids = new Map(), at = (part, i) => code[place + part * attributes + i];
        for (let i = 0; i < attributes; i++) ids.set(places.map((_, part) => at(part, i)).join(), first + i);
        place += places.length * attributes;
        first += attributes;
        return { places, ids };
      });
    }

    // Code and number of a column at a place, which may be outside of the sequence
    cell(column, tokens, t) {
      const { codes, numeric, apply } = this.columns[column], { size } = codes;
      if (t < 0 || t >= tokens.length) return [this.marks ? size + (t < 0 ? 0 : 1) : -1, 1];
      const value = apply(tokens[t]), code = codes.get(numeric ? Number(value) !== 0 : value);
      return [code === undefined ? -1 : code, numeric ? Number(value) : 1];
    }

    // Calls add(t, attribute, value) for all attributes of the tokens that the model knows
    each(tokens, add) {
      tokens.forEach((_, t) => {
        const cells = new Map(); // what has been computed at this token
        const at = ([column, offset]) => {
          const place = `${column} ${offset}`;
          if (!cells.has(place)) cells.set(place, this.cell(column, tokens, t + offset));
          return cells.get(place);
        };
        for (const { places, ids } of this.templates) {
          const found = places.map(at), attribute = ids.get(found.map(([code]) => code).join());
          if (attribute !== undefined) add(t, attribute, found.reduce((product, [, number]) => product * number, 1));
        }
      });
    }
  }

  // --- the model --------------------------------------------------------------------------------------------------

  function largest(row) {
    let most = -Infinity;
    for (let i = 0; i < row.length; i++) if (row[i] > most) most = row[i];
    return most;
  }

  function logSum(row) {
    const shift = largest(row);
    let sum = 0;
    for (let i = 0; i < row.length; i++) sum += Math.exp(row[i] - shift);
    return shift === -Infinity ? shift : shift + Math.log(sum);
  }

  const addTo = (table, key, value) => table.set(key, (table.get(key) || 0) + value);

  class Tagger {
    constructor(buffer) {
      const [header, arrays] = readFile(buffer), { features } = header;
      require(features.kind === "templates", "The model reads feature dicts or columns, which cannot be typed here.");
      Object.assign(this, { labels: header.labels, scheme: header.scheme, nColumns: header.n_columns });
      Object.assign(this, { borders: arrays.borders, always: arrays.always, target: arrays.target });
      const text = characters(new TextDecoder().decode(arrays.text)), bounds = offsetsOf(arrays.n_text);
      let taken = 0;
      const take = (n) => Array.from({ length: n }, () => text.slice(bounds[taken], bounds[++taken]).join(""));
      this.features = new Templates(features, arrays, take);
      this.weights = { starts: offsetsOf(arrays.n_weights), column: arrays.column, weight: arrays.weight };
      this.readAutomaton(arrays);
      this.readSegments();
    }

    readAutomaton({ fail, source, label, target, score, closed, n_moved, moved }) {
      const starts = offsetsOf(n_moved), arcs = Array.from(fail, () => new Int32Array(this.labels.length).fill(-1));
      label.forEach((y, arc) => (arcs[source[arc]][y] = arc));
      for (let q = 1; q < arcs.length; q++) { // lengths ascend: the state that q fails to is complete
        arcs[q].forEach((arc, y) => (arcs[q][y] = arc < 0 ? arcs[fail[q]][y] : arc));
      }
      this.last = new Int32Array(arcs.length).fill(-1); // label of each state
      target.forEach((state, arc) => (this.last[state] = label[arc]));
      this.arcs = arcs;
      this.arcScore = Float64Array.from(score, (value, arc) => (closed[arc] ? -Infinity : value));
      this.moved = Array.from(n_moved, (_, arc) => moved.subarray(starts[arc], starts[arc + 1]));
    }

    // What labels say about segments: names, and which label goes on with the segment of another one
    readSegments() {
      const { labels, scheme } = this, isTag = scheme !== null && scheme !== "runs";
      const place = labels.map((tag) => (isTag ? PREFIXES[scheme].indexOf(tag[0]) : 1));
      this.names = labels.map((tag, y) => (place[y] === 2 ? null : isTag ? tag.slice(2) || "_" : String(tag)));
      const continues = (a, b) => [0, 1].includes(place[a]) && [1, 3].includes(place[b]);
      this.goesOn = labels.map((_, a) => labels.map((__, b) => this.names[a] === this.names[b] && continues(a, b)));
    }

    // Scores of all columns at each token
    scores(tokens) {
      const { nColumns: C, always, weights, borders } = this, L = this.labels.length, end = tokens.length - 1;
      const scores = tokens.map((_, t) => Float64Array.from({ length: C }, (__, c) =>
        always[c] + (t === 0 ? always[C + c] : 0) + (t === end ? always[2 * C + c] : 0)));
      this.features.each(tokens, (t, attribute, value) => {
        for (let i = weights.starts[attribute]; i < weights.starts[attribute + 1]; i++) {
          scores[t][weights.column[i]] += value * weights.weight[i];
        }
      });
      for (let y = 0; y < L; y++) {
        if (!borders[y]) scores[0][y] = -Infinity;
        if (!borders[L + y]) scores[end][y] = -Infinity;
      }
      return scores;
    }

    // For each token and state: a score of all labels from there on, the rest combined by logSum or largest
    backward(scores, combine) {
      const tables = [];
      let after = new Float64Array(this.arcs.length);
      for (let t = scores.length - 1; t >= 0; t--) {
        const own = this.arcScore.map((score, arc) => {
          const state = this.target[arc];
          let total = score + scores[t][this.last[state]] + after[state];
          for (const column of this.moved[arc]) total += scores[t][column];
          return total;
        });
        const rows = this.arcs.map((arcs) => Float64Array.from(arcs).map((arc) => own[arc]));
        tables.unshift(rows);
        after = Float64Array.from(rows, combine);
      }
      return tables;
    }

    next(state, y) {
      return this.target[this.arcs[state][y]];
    }

    // The scores, those of all labels of a token reduced by about what it contributes to the best labelling: no
    // probability changes, but differences are then those of small numbers
    centred(scores) {
      const tables = this.backward(scores, largest);
      require(largest(tables[0][0]) > -Infinity, "The constraints of the model allow no labels here.");
      let state = 0;
      return scores.map((row, t) => {
        const score = largest(tables[t][state]);
        state = this.next(state, tables[t][state].indexOf(score));
        const shift = Math.round(score - (t + 1 < scores.length ? largest(tables[t + 1][state]) : 0));
        return row.map((value, column) => (column < this.labels.length ? value - shift : value));
      });
    }

    // For each token: [state before it, its label, their probability]
    forward(tables) {
      let mass = new Map([[0, 1]]);
      return tables.map((rows) => {
        const flow = this.flow(rows, mass, () => true);
        mass = new Map();
        for (const [state, y, p] of flow) addTo(mass, this.next(state, y), p);
        return flow;
      });
    }

    // Where the mass of states goes by the labels that are allowed
    flow(rows, mass, allowed) {
      const flow = [];
      for (const [state, p] of mass) {
        const logZ = logSum(rows[state]);
        rows[state].forEach((score, y) => {
          const share = p * Math.exp(score - logZ);
          if (share > 1e-15 && allowed(state, y)) flow.push([state, y, share]);
        });
      }
      return flow;
    }

    // The n labellings of highest score: each leaves an earlier one, at some token, for another label
    nbest(tables, n, logZ) {
      const found = [], waiting = [{ regret: 0, prefix: [] }], top = Math.min(largest(tables[0][0]) - logZ, 0);
      while (waiting.length && found.length < n) {
        waiting.sort((a, b) => a.regret - b.regret || b.prefix.length - a.prefix.length);
        const { regret, prefix } = waiting.shift(), codes = [...prefix];
        let state = codes.reduce((q, y) => this.next(q, y), 0);
        for (let t = codes.length; t < tables.length; t++) {
          const row = tables[t][state], best = row.indexOf(largest(row));
          row.forEach((score, y) => {
            if (y === best || score === -Infinity) return;
            waiting.push({ regret: regret + row[best] - score, prefix: [...codes, y] });
          });
          codes.push(best);
          state = this.next(state, best);
        }
        const labels = codes.map((y) => this.labels[y]);
        found.push({ codes, labels, probability: Math.exp(top - regret) });
      }
      return found;
    }

    // Start, stop, name and probability of the segments of a labelling
    segments(tables, flows, codes) {
      const { goesOn, names } = this, found = [];
      codes.forEach((y, t) => {
        if (t && goesOn[codes[t - 1]][y]) found[found.length - 1].stop = t + 1;
        else found.push({ start: t, stop: t + 1, name: names[y] });
      });
      for (const segment of found) segment.probability = this.segmentProbability(tables, flows, segment);
      return found.filter(({ name }) => name !== null);
    }

    // Of all labellings that have a segment with this start, stop and name
    segmentProbability(tables, flows, { start, stop, name }) {
      const goes = (state, y) => state !== 0 && this.goesOn[this.last[state]][y];
      const total = (flow) => flow.reduce((sum, [, , p]) => sum + p, 0);
      let flow = flows[start].filter(([state, y]) => this.names[y] === name && !goes(state, y));
      for (let t = start + 1; t <= stop; t++) {
        const mass = new Map();
        for (const [state, y, p] of flow) addTo(mass, this.next(state, y), p);
        if (t === tables.length) break;
        flow = this.flow(tables[t], mass, t < stop ? goes : (state, y) => !goes(state, y));
      }
      return Math.min(total(flow), 1);
    }

    // Marginals, segments with their probabilities, and the n best labellings of one sequence
    tag(tokens, n = 5) {
      if (!tokens.length) return { tokens, marginals: [], segments: [], nbest: [] };
      const scores = this.centred(this.scores(tokens));
      const sums = this.backward(scores, logSum), logZ = logSum(sums[0][0]);
      const flows = this.forward(sums), marginals = tokens.map(() => this.labels.map(() => 0));
      flows.forEach((flow, t) => flow.forEach(([, y, p]) => (marginals[t][y] += p)));
      const nbest = this.nbest(this.backward(scores, largest), n, logZ);
      return { tokens, marginals, nbest, segments: this.segments(sums, flows, nbest[0].codes) };
    }
  }

  return { Tagger };
})();

if (typeof module !== "undefined") module.exports = HOCRF;
