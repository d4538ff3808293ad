"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const fields = ["run", "index", "outcome", "status", "name", "method", "url", "code", "message", "bytes",
  "resumed", "tries", "queued", "life", "time", "blocker", "head", "cache", "timeline"];
const attemptFields = ["start", "lookup", "connect", "tls", "wait", "receive", "status", "code", "next",
  "delay", "location"];
const phases = ["lookup", "connect", "tls", "wait", "receive"];
const colours = { queued: "queued", blocked: "waiting for a dependency", lookup: "name lookup", connect: "connect",
  tls: "TLS", wait: "sent, waiting", receive: "receiving", delay: "waiting for a retry" };
const classes = ["failed", "unsent", "unfinished", "cancelled", "succeeded", "skipped"];
const named = (names, values) => Object.fromEntries(names.map((name, i) => [name, values[i]]));
class Row {
  constructor(values, place) {
    for (let i = 0; i < fields.length; i += 1) this[fields[i]] = values[i];
    [this.place, this.key, this.hay, this.attempts] = [place, 0, undefined, undefined];
  }
  // Decodes the attempts on first use, because most rows are never opened.
  get line() { return this.attempts ??= this.timeline.map(values => named(attemptFields, values)); }
}
const all = data.rows.map((values, place) => new Row(values, place));
const began = row => row.queued + (row.line[0] ? row.line[0].start : 0);
const critical = new Set(data.path);
const byID = id => document.getElementById(id);

function make(tag, className, ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content);
  return element;
}
function makeButton(className, act, ...content) {
  const button = make("button", className, ...content);
  button.addEventListener("click", act);
  return button;
}
// Makes a text that is cut in the middle, because the end of a URL identifies it best.
const joins = /[\p{M}\p{Emoji_Modifier}\u200d\ufe0f]/u;
function cut(text, tail = innerWidth > 760 ? 20 : 11) {
  const points = Array.from(text), isLong = points.length > tail * 1.5;
  const element = make("span", isLong ? "cut long" : "cut");
  let end = isLong ? points.length - tail : 0;
  // Does not separate a combining mark from its character.
  while (end > 0 && (joins.test(points[end] ?? "") || points[end - 1] === "\u200d")) end -= 1;
  if (end > 0) element.append(make("span", "", points.slice(0, end).join("")));
  element.append(make("span", "", points.slice(end).join("")));
  element.title = text;
  return element;
}
function time(us) {
  if (us < 0) return "";
  if (us < 1e4) return (us / 1e3).toFixed(us < 100 ? 2 : 1) + " ms";
  if (us < 1e6) return Math.round(us / 1e3) + " ms";
  if (us < 6e7) return (us / 1e6).toFixed(2) + " s";
  const seconds = Math.round(us / 1e6), minutes = Math.floor(seconds / 60);
  return minutes < 60 ? minutes + " min " + seconds % 60 + " s"
    : Math.floor(minutes / 60) + " h " + minutes % 60 + " min";
}
function bytes(count) {
  if (count < 1000) return count + " B";
  const units = ["kB", "MB", "GB", "TB", "PB", "EB"];
  let unit = -1;
  while (count >= 999.95 && unit < 5) { count /= 1000; unit += 1; }
  return count.toFixed(1) + " " + units[unit];
}
const spaced = code => code.replace(/[A-Z]+/g, letters => " " + letters.toLowerCase());
const number = count => count.toLocaleString("en");
const label = row => row.name || (row.method + " " + row.url).trim();
function state(row) {
  const word = data.outcomes[row.outcome][0];
  return row.status > 0 ? row.status + (row.outcome === 4 ? "" : " " + word) : word;
}

// Returns the sections of a row's bar in order, each with its start, length and class.
function pieces(row) {
  if (row.queued < 0) return [];
  const end = row.queued + row.life, first = row.line[0];
  const start = first ? row.queued + first.start : end;
  const blocker = row.blocker < 0 ? null : all[row.blocker];
  const freed = blocker ? Math.max(row.queued, Math.min(blocker.queued + blocker.life, start)) : row.queued;
  const list = [[row.queued, freed - row.queued, "blocked"]];
  // A report does not contain the attempts of a download in parts.
  list.push([freed, start - freed, first || row.outcome !== 4 ? "queued" : "receive"]);
  for (const attempt of row.line) {
    let at = row.queued + attempt.start;
    for (const phase of phases) {
      if (attempt[phase] > 0) list.push([at, attempt[phase], phase]);
      at += Math.max(0, attempt[phase]);
    }
    if (attempt.next === "retry") list.push([at, Math.max(0, attempt.delay), "delay"]);
  }
  if (row.outcome < 4 && row.outcome !== 3) list.push([end, 0, "end"]);
  return list.filter(piece => piece[1] > 0 || piece[2] === "end");
}

const columns = [
  { key: "index", title: "#", wide: true, of: row => row.run * 1e9 + row.index },
  { key: "outcome", title: "Outcome", of: row => row.outcome },
  { key: "request", title: "Request", of: label },
  { key: "bytes", title: "Bytes", wide: true, number: true, of: row => row.bytes },
  { key: "tries", title: "Tries", wide: true, number: true, of: row => row.tries },
  { key: "time", title: "Time", number: true, of: row => row.time },
  { key: "start", title: "Waterfall", of: began },
];
const isCached = all.some(row => row.cache);
if (isCached) columns.splice(5, 0, { key: "cache", title: "Cache", wide: true, of: row => row.cache });
byID("table").classList.toggle("cached", isCached);
const view = { shown: [], sort: "outcome", down: false, words: [], hidden: new Set(), onlyPath: false,
  hiddenSides: new Set(), only: null, selected: -1, from: 0, to: Math.max(1, data.span) };
const secondRun = data.sides.length > 1 ? data.sides[0].runs : Infinity;
const sideOf = row => row.run < secondRun ? 0 : 1;
const hay = row => row.hay ??= [row.name, row.method, row.url, row.code, row.message, row.status, state(row), row.cache]
  .join(" ").toLowerCase();

function select() {
  view.shown = all.filter(row => !view.hidden.has(row.outcome) && (!view.onlyPath || critical.has(row.place))
    && !view.hiddenSides.has(sideOf(row)) && (!view.only || view.only.test(row))
    && view.words.every(word => hay(row).includes(word)));
  const of = columns.find(column => column.key === view.sort).of, sign = view.down ? -1 : 1;
  for (const row of view.shown) row.key = of(row);
  view.shown.sort((a, b) => {
    const x = a.key, y = b.key;
    return (x < y ? -sign : x > y ? sign : 0) || a.queued - b.queued || a.place - b.place;
  });
}
const sideNames = data.sides.map(side => side.name);
const isComparison = data.sides.length > 1;
function groupOf(key, row) {
  if (key === "status") return row.status > 0 ? String(row.status) : row.code || data.outcomes[row.outcome][0];
  const [, host, path] = /^(?:[^:]*:\/\/([^/?#]*))?([^?#]*)/.exec(row.url);
  if (key === "host") return host || "";
  return row.name || [row.method, path.replace(/[0-9]+/g, "*")].filter(Boolean).join(" ");
}
// Returns the number of times and their percentiles by the nearest ranks.
function percentiles(rows) {
  const times = rows.map(row => row.time).filter(us => us >= 0).sort((a, b) => a - b);
  if (times.length === 0) return [];
  return [times.length, ...[50, 90, 99, 100].map(percent => times[Math.ceil(times.length * percent / 100) - 1])];
}
data.sides.forEach((side, s) => side.times = percentiles(all.filter(row => sideOf(row) === s)));
const timed = all.filter(row => row.time >= 0);
// Counts the requests and the failures of each side in 40 bars. A bar includes its lower edge.
function makeHistogram() {
  const least = timed.reduce((least, row) => Math.min(least, row.time), Infinity);
  const most = timed.reduce((most, row) => Math.max(most, row.time), 0);
  // A logarithmic scale begins at ten microseconds or more. Shorter times are in the first bar.
  const isLogarithmic = most > Math.max(1, least) * 4, low = isLogarithmic ? Math.max(10, least) : least;
  const high = Math.max(most, low + 1);
  const edges = Array.from({ length: 41 }, (_, i) => Math.round(
    isLogarithmic ? low * Math.pow(high / low, i / 40) : low + (high - low) * i / 40));
  const starts = edges.slice(1, -1).reverse();
  const barOf = us => {
    const after = starts.findIndex(edge => edge <= us);
    return after < 0 ? 0 : starts.length - after;
  };
  const bars = data.sides.map(() => starts.concat(0).map(() => [0, 0]));
  for (const row of timed) {
    const bar = bars[sideOf(row)][barOf(row.time)];
    bar[0] += 1;
    if (row.outcome === 0) bar[1] += 1;
  }
  return { edges, isLogarithmic, bars, barOf };
}
const histogram = makeHistogram();
// Groups the rows, the largest group first. At most 200 groups are listed, because each request may be its own group.
function groupsBy(key) {
  const groups = new Map();
  for (const row of all) {
    const name = groupOf(key, row);
    if (!groups.has(name)) groups.set(name, { name, count: 0, sides: data.sides.map(() => []) });
    const group = groups.get(name);
    group.count += 1;
    group.sides[sideOf(row)].push(row);
  }
  const listed = [...groups.values()].sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1)).slice(0, 200);
  return { key, count: groups.size, rows: listed.map(({ name, sides }) => [name,
    sides.map(rows => [rows.length, rows.filter(row => row.outcome === 0).length, percentiles(rows)])]) };
}
const grouped = ["host", "name", "status"].map(groupsBy);
// Shows only the rows that pass the test. The words describe them to the reader.
function pick(words, test) {
  view.only = { words, test };
  drawFilters();
  refresh();
  byID("tools").scrollIntoView({ block: "start" });
}
function link(row, ...more) {
  return makeButton("link", () => show(row.place), cut(label(row)), ...more);
}
function percentChange(before, now) {
  if (!(before > 0)) return "";
  const percent = Math.round((now - before) / before * 100);
  return (percent > 0 ? "+" : "") + number(percent) + " %";
}

function drawTimes() {
  if (timed.length === 0) return;
  const { edges, isLogarithmic, bars, barOf } = histogram;
  byID("times").hidden = false;
  const titles = ["requests", "50 %", "90 %", "99 %", "max"];
  data.sides.forEach((side, s) => {
    const list = s === 0 ? byID("times").querySelector(".percentiles") : make("ul", "percentiles");
    if (isComparison) list.append(make("li", "side side" + s, side.name));
    list.append(...side.times.map((value, i) => make("li", "",
      make("b", "", i === 0 ? number(value) : time(value)), make("span", "", titles[i]))));
    if (s > 0) byID("times").querySelector(".bars").before(list);
  });
  const most = Math.max(1, ...bars.flat().map(bar => bar[0]));
  byID("times").querySelector(".bars").append(...edges.slice(0, -1).map((edge, i) => {
    const counts = bars.map(side => side[i]);
    const button = makeButton("", () => pick(time(edge) + " to " + time(edges[i + 1]),
      row => row.time >= 0 && barOf(row.time) === i));
    button.title = time(edge) + " to " + time(edges[i + 1]) + ": " + counts.map(([count, failed], s) =>
      (isComparison ? sideNames[s] + " " : "") + number(count) + (failed ? ", " + number(failed) + " failed" : ""))
      .join("; ");
    button.setAttribute("aria-label", button.title);
    counts.forEach(([count, failed], s) => {
      const bad = make("i", "bad"), bar = make("i", "side" + s, bad);
      // A bar has at least 2 %, so that one request among thousands is visible.
      bar.style.height = count === 0 ? "0" : Math.max(2, count / most * 100) + "%";
      bad.style.height = count === 0 ? "0" : failed / count * 100 + "%";
      button.append(bar);
    });
    button.disabled = counts.every(([count]) => count === 0);
    return button;
  }));
  drawTicks(edges[0], edges.at(-1), isLogarithmic);
}
function drawTicks(low, high, logarithmic) {
  const part = us => logarithmic ? Math.log(us / low) / Math.log(high / low) : (us - low) / (high - low);
  let marks = [0, 0.25, 0.5, 0.75, 1].map(part => low + (high - low) * part);
  if (logarithmic) {
    const steps = Math.log10(high / low) > 2.5 ? [1] : [1, 2, 5];
    marks = [];
    for (let power = 1; power <= high; power *= 10) marks.push(...steps.map(step => step * power));
    marks = marks.filter(mark => mark >= low && mark <= high);
  }
  byID("times").querySelector(".ticks").append(...marks.map(mark => {
    const tick = make("span", part(mark) > 0.92 ? "end" : part(mark) < 0.05 ? "start" : "", time(mark));
    tick.style.left = part(mark) * 100 + "%";
    return tick;
  }));
}

function drawGroups(key, everything) {
  const section = byID("groups"), groups = grouped.find(groups => groups.key === key);
  section.hidden = data.rows.length === 0;
  section.querySelector(".tabs").replaceChildren(...grouped.map(other => {
    const button = makeButton("", () => {
      drawGroups(other.key, false);
      section.querySelector("[aria-pressed=true]").focus();
    }, "by " + other.key + " " + number(other.count));
    button.setAttribute("aria-pressed", other.key === key);
    return button;
  }));
  const titles = isComparison ? ["", "requests", "failed", "50 %", "99 %", "change"]
    : ["", "requests", "failed", "50 %", "90 %", "99 %", "max"];
  const shown = everything ? groups.rows : groups.rows.slice(0, 8);
  const content = [make("table", isComparison ? "" : "single",
    make("tr", "", ...titles.map(title => make("th", "", title))),
    ...shown.map(([name, cells]) => groupRow(key, name, cells)))];
  const rest = groups.count - shown.length, words = "and " + number(rest) + " more";
  if (rest > 0) content.push(everything ? make("p", "link", words)
    : makeButton("link", () => drawGroups(key, true), words));
  section.querySelector(".wide-table").replaceChildren(...content);
}
function groupRow(key, name, cells) {
  const row = make("tr", "", make("td", "", makeButton("link",
    () => pick(key + " " + (name || "none"), row => groupOf(key, row) === name), cut(name || "without a " + key))));
  const add = (text, className) => row.append(make("td", className, text));
  const bad = count => count > 0 ? "bad" : "";
  if (isComparison) {
    const [a, b] = cells, both = of => of(a) + " → " + of(b);
    add(both(cell => number(cell[0])));
    add(both(cell => number(cell[1])), bad(b[1]));
    for (const i of [1, 3]) add(both(cell => cell[2].length ? time(cell[2][i]) : "–"));
    const change = a[2].length && b[2].length ? percentChange(a[2][1], b[2][1]) : "";
    add(change, change.startsWith("+") ? "slower" : "");
  } else {
    const [count, failed, times] = cells[0];
    add(number(count)), add(number(failed), bad(failed));
    for (const value of times.slice(1)) add(time(value));
  }
  return row;
}

function list(id, title, rows, moreCount, pickRest, detail) {
  if (rows.length === 0) return;
  const items = rows.map(row => make("li", "", link(row, make("small", classes[row.outcome], detail(row)))));
  byID(id).hidden = false;
  byID(id).append(make("h2", "", title), make("ol", "", ...items));
  if (moreCount > 0) byID(id).append(makeButton("link", pickRest, "and " + number(moreCount) + " more"));
}
const why = row => [row.status > 0 ? row.status : "", spaced(row.code)].filter(Boolean).join(" ");
function drawLists() {
  if (isComparison) return drawChanges();
  const failed = all.filter(row => row.outcome === 0);
  list("failures", number(data.outcomes[0][1]) + " failed", failed.slice(0, 10), failed.length - 10,
    () => pick("failed", row => row.outcome === 0), why);
  list("slowest", "Slowest", timed.slice().sort((a, b) => b.time - a.time || a.place - b.place).slice(0, 10), 0, null,
    row => time(row.time) + (row.outcome === 4 ? "" : " " + state(row)));
}
function drawChanges() {
  const { pairs, onlyBefore, onlyAfter, broken, brokenCount, repaired, repairedCount, slowed } = data.comparison;
  const rows = pairs => pairs.slice(0, 10).map(pair => all[pair[1]]);
  const places = pairs => new Set(pairs.map(pair => pair[1]));
  const differences = new Map(slowed.map(([before, after, more]) =>
    [after, time(all[before].time) + " → " + time(all[after].time)]));
  list("failures", number(brokenCount) + " fail now", rows(broken), brokenCount - 10,
    () => pick("fail now", row => places(broken).has(row.place)), why);
  list("repaired", number(repairedCount) + " fail no longer", rows(repaired), repairedCount - 10,
    () => pick("fail no longer", row => places(repaired).has(row.place)), row => state(row));
  list("slowest", "Slower than before", rows(slowed), 0, null, row => differences.get(row.place));
  const words = [number(pairs) + " requests are in both"];
  if (onlyBefore > 0) words.push(number(onlyBefore) + " in " + sideNames[0] + " only");
  if (onlyAfter > 0) words.push(number(onlyAfter) + " in " + sideNames[1] + " only");
  byID("when").append(" · " + words.join(", "));
}
// Draws the figures of two reports and their change.
function drawSides() {
  byID("sides").hidden = false;
  const table = make("table");
  const add = (tag, ...cells) => {
    const row = table.insertRow();
    row.append(...cells.map((text, i) => make(tag, tag === "th" && i > 0 ? "side side" + (i - 1) : "", text)));
  };
  add("th", "", ...sideNames, "change");
  const [a, b] = data.sides;
  const rows = [["requests", number, side => side.requests],
    ...data.outcomes.map(([word], i) => [word, number, side => side.outcomes[i]]),
    ["total time", time, side => side.span], ["received", bytes, side => side.bytes],
    ["retries", number, side => side.retries], ["redirects", number, side => side.redirects],
    ...["50 %", "90 %", "99 %", "max"].map((word, i) => [word, time, side => side.times[i + 1] ?? -1])];
  for (const [word, text, of] of rows) {
    if (of(a) > 0 || of(b) > 0) add("td", word, text(of(a)), text(of(b)), percentChange(of(a), of(b)));
  }
  byID("sides").append(table);
}
const scroll = byID("scroll"), rowsElement = byID("rows");
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));

function bar(row) {
  const element = make("div", "bar"), span = view.to - view.from;
  for (const [from, length, kind] of pieces(row)) {
    const left = (from - view.from) / span * 100, right = (from + length - view.from) / span * 100;
    if (right < 0 || left > 100) continue;
    const piece = make("i", kind);
    piece.style.left = Math.max(0, left) + "%";
    if (kind !== "end") piece.style.width = Math.min(100, right) - Math.max(0, left) + "%";
    element.append(piece);
  }
  return element;
}
function cell(className, ...content) {
  const element = make("div", className, ...content);
  element.setAttribute("role", "cell");
  return element;
}
function drawn(row, position, height) {
  const element = make("div", "row " + classes[row.outcome]);
  element.id = "row" + row.place;
  element.setAttribute("role", "row");
  element.setAttribute("aria-rowindex", position + 2);
  if (critical.has(row.place)) element.classList.add("critical");
  if (row.place === view.selected) element.classList.add("selected");
  element.style.top = position * height + "px";
  const what = cell("what", cut(label(row)));
  what.title = label(row);
  if (row.code) what.append(" ", make("small", "bad", row.message || spaced(row.code)));
  if (row.name && row.url) what.append(" ", make("small", "target", cut(row.method + " " + row.url, 12)));
  const index = row.index < 0 ? "" : data.runs.length > 1 ? row.run + 1 + "·" + row.index : row.index;
  if (isComparison) element.classList.add("of-side" + sideOf(row));
  element.append(cell("wide", index), cell("state", state(row)), what,
    cell("wide number", bytes(row.bytes)), cell("wide number", row.tries), ...(isCached ? [cell("wide", row.cache)] : []),
    cell("number", time(row.time)));
  const waterfall = bar(row);
  waterfall.setAttribute("role", "cell");
  waterfall.setAttribute("aria-label", "began after " + time(began(row)));
  element.append(waterfall);
  return element;
}
function drawRows(everything) {
  const height = rowHeight(), shown = view.shown;
  rowsElement.style.height = shown.length * height + "px";
  const first = everything ? 0 : Math.max(0, Math.floor(scroll.scrollTop / height) - 8);
  const count = everything ? 1000 : Math.ceil(scroll.clientHeight / height) + 16;
  const some = shown.slice(first, first + count);
  fit(some);
  rowsElement.replaceChildren(...some.map((row, i) => drawn(row, first + i, height)));
}
function fit(some) {
  const timed = some.filter(row => row.queued >= 0);
  const close = byID("fit").checked && timed.length > 0;
  // The axis starts where the earliest drawn row began. From 0, a long wait before it would squeeze all bars.
  const from = close ? timed.reduce((least, row) => Math.min(least, began(row)), Infinity) : 0;
  const to = close ? timed.reduce((most, row) => Math.max(most, row.queued + row.life), 0) : data.span;
  if (from === view.from && to === view.to && byID("axis").childElementCount > 1) return;
  [view.from, view.to] = [from, Math.max(from + 1, to)];
  const ticks = [0.25, 0.5, 0.75, 1].map(part => {
    const tick = make("span", "", time(from + (view.to - from) * part));
    tick.style.left = part * 100 + "%";
    return tick;
  });
  byID("axis").replaceChildren(byID("axis").firstChild, ...ticks);
}

function drawFigures() {
  byID("title").textContent = document.title = data.title;
  const joined = isComparison ? "two reports, " : data.runs.length > 1 ? data.runs.length + " runs joined, " : "";
  byID("when").textContent = joined + (data.start < 0 ? "made " : "begun ")
    + new Date((data.start < 0 ? data.made : data.start) / 1000).toLocaleString();
  const figures = [[number(data.requests), "requests"]];
  data.outcomes.forEach(([word, count], i) => {
    if (count > 0) figures.push([number(count), word, i < 2 ? "bad" : ""]);
  });
  figures.push([time(data.span), "total time"], [bytes(data.bytes), "received"]);
  if (data.resumed > 0) figures.push([bytes(data.resumed), "from earlier runs"]);
  if (data.retries > 0) figures.push([number(data.retries), "retries"]);
  if (data.redirects > 0) figures.push([number(data.redirects), "redirects"]);
  for (const [code, count] of data.failures.slice(0, 5)) figures.push([number(count), spaced(code), "bad"]);
  if (isComparison) drawSides();
  else byID("figures").append(...figures.map(([figure, word, className]) =>
    make("li", className, make("b", "", figure), make("span", "", word))));
  const remarks = data.remarks.slice(0, 20);
  if (data.rowless > 0) remarks.push(number(data.rowless) + " more requests are counted, but have no row");
  byID("remarks").hidden = remarks.length === 0;
  byID("remarks").append(...remarks.map(remark => make("li", "", remark)));
  byID("legend").append(...Object.entries(colours).map(([kind, words]) => make("li", "", make("i", kind), words)));
}
function drawPath() {
  if (data.path.length < 2) return;
  const section = byID("path");
  section.hidden = false;
  section.querySelector("h2").textContent = "Critical path: " + number(data.path.length) + " requests, "
    + time(data.pathTime) + " of " + time(data.span);
  if (data.path.length > 300) return section.querySelector(".track").remove();
  const last = all[data.path.at(-1)], from = began(all[data.path[0]]);
  const span = Math.max(1, last.queued + last.life - from);
  section.querySelector(".track").append(...data.path.map(place => {
    const row = all[place], step = makeButton("", () => show(place), label(row));
    step.title = label(row) + ", " + time(row.time);
    step.style.left = (began(row) - from) / span * 100 + "%";
    step.style.width = Math.max(0, row.time) / span * 100 + "%";
    return step;
  }));
}

function drawDetail() {
  const row = all[view.selected], detail = byID("detail");
  detail.hidden = !row;
  if (!row) return;
  const close = makeButton("close", () => { view.selected = -1; draw(); scroll.focus(); }, "close (Esc)");
  const facts = [state(row), row.outcome === 4 ? bytes(row.bytes) : "", row.resumed > 0 && row.outcome === 4
    ? bytes(row.resumed) + " from an earlier run" : "", row.cache && "cache: " + row.cache, time(row.time), data.runs.length > 1 ? data.runs[row.run] : ""];
  detail.replaceChildren(close, make("h2", "", label(row)),
    make("p", "", (row.name ? row.method + " " + row.url + ": " : "") + facts.filter(Boolean).join(", ")));
  if (row.message || row.code) {
    detail.append(make("p", "bad", [spaced(row.code), row.message].filter(Boolean).join(": ")));
  }
  if (row.head) detail.append(make("pre", "", row.head));
  const blocked = pieces(row).find(piece => piece[2] === "blocked");
  if (row.blocker >= 0) {
    detail.append(make("p", "", "waited " + time(blocked ? blocked[1] : 0) + " for ",
      makeButton("", () => show(row.blocker), label(all[row.blocker]))));
  }
  if (row.line.length === 0) return;
  const table = make("table");
  const titles = ["", "began", ...phases.map(phase => colours[phase]), "response", "then"];
  table.insertRow().append(...titles.map(title => make("th", "", title)));
  row.line.forEach((attempt, i) => {
    const then = { redirect: "redirect to " + attempt.location, retry: "retry after " + time(attempt.delay),
      again: "sent again" }[attempt.next] || "";
    const values = [i + 1, "+" + time(attempt.start), ...phases.map(phase => time(attempt[phase])),
      attempt.status > 0 ? attempt.status : attempt.code, then];
    table.insertRow().append(...values.map(value => make("td", "", value)));
  });
  detail.append(table);
}
function drawHead() {
  byID("head").replaceChildren(...columns.map(column => {
    const cell = make("div", column.key === "start" ? "axis" : column.wide ? "wide" : "");
    if (column.key === "start") cell.id = "axis";
    if (column.number) cell.classList.add("number");
    cell.setAttribute("role", "columnheader");
    if (view.sort === column.key) cell.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    cell.append(makeButton("", () => {
      // A column of numbers first shows its largest values.
      view.down = view.sort === column.key ? !view.down : column.number === true;
      view.sort = column.key;
      drawHead();
      refresh();
      byID("head").querySelector("[aria-sort] button").focus();
    }, column.title));
    return cell;
  }));
}
function drawFilters() {
  const toggle = (className, words, isOn, change) => {
    const button = makeButton(className, () => {
      button.setAttribute("aria-pressed", change());
      refresh();
    }, ...words);
    button.setAttribute("aria-pressed", isOn);
    return button;
  };
  // Toggles whether the rows of a value are hidden.
  const hide = (className, hidden, value, words) => toggle(className, [words], !hidden.has(value), () => {
    if (!hidden.delete(value)) hidden.add(value);
    return !hidden.has(value);
  });
  const buttons = [];
  if (view.only) {
    buttons.push(toggle("only", [cut(view.only.words), " ×"], true, () => {
      view.only = null;
      drawFilters();
    }));
    buttons[0].title = "show the other rows again";
  }
  if (isComparison) {
    buttons.push(...sideNames.map((name, side) => hide("side side" + side, view.hiddenSides, side, name)));
  }
  data.outcomes.forEach(([word, count], i) => {
    if (count > 0) buttons.push(hide("", view.hidden, i, word + " " + number(count)));
  });
  if (critical.size > 1) {
    buttons.push(toggle("", ["critical path only"], view.onlyPath, () => view.onlyPath = !view.onlyPath));
  }
  byID("filters").replaceChildren(...buttons);
}

function draw() { drawRows(false); drawDetail(); }
function refresh() {
  select();
  scroll.scrollTop = 0;
  draw();
  summarize();
}
function summarize() {
  byID("table").setAttribute("aria-rowcount", view.shown.length + 1);
  byID("summary").textContent = number(view.shown.length) + " of " + number(all.length) + " rows · "
    + "keys: / search, ↑ ↓ rows, Enter details, Esc back";
}
// Selects a row and scrolls to it. Removes the filters if they hide the row.
function show(place) {
  let position = view.shown.findIndex(row => row.place === place);
  if (position < 0) {
    [view.words, view.onlyPath, view.only] = [[], false, null];
    view.hidden.clear();
    view.hiddenSides.clear();
    byID("search").value = "";
    drawFilters();
    select();
    summarize();
    // Sets the height of the list first, so that it can scroll to the row.
    drawRows(false);
    position = view.shown.findIndex(row => row.place === place);
  }
  view.selected = place;
  drawDetail();
  reveal(position);
}
function reveal(position) {
  const height = rowHeight(), top = position * height;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  if (top + height > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + height - scroll.clientHeight;
  drawRows(false);
  byID("table").scrollIntoView({ block: "nearest" });
  scroll.setAttribute("aria-activedescendant", "row" + view.selected);
}
function move(step) {
  if (view.shown.length === 0) return;
  const now = view.shown.findIndex(row => row.place === view.selected);
  const next = Math.max(0, Math.min(view.shown.length - 1, now < 0 ? 0 : now + step));
  view.selected = view.shown[next].place;
  if (!byID("detail").hidden) drawDetail();
  reveal(next);
}

scroll.addEventListener("keydown", event => {
  const page = Math.max(1, Math.floor(scroll.clientHeight / rowHeight()) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.key in steps) move(steps[event.key]);
  else if (event.key === "Enter" && view.selected >= 0) drawDetail();
  else return;
  event.preventDefault();
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && event.target.tagName !== "INPUT") {
    byID("search").focus();
    event.preventDefault();
  } else if (event.key === "Escape" && !byID("detail").hidden) {
    view.selected = -1;
    draw();
    scroll.focus();
  }
});
scroll.addEventListener("click", event => {
  const row = event.target.closest(".row");
  if (row) show(Number(row.id.slice(3)));
});
let isDue = false;
scroll.addEventListener("scroll", () => {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; drawRows(false); });
}, { passive: true });
byID("search").addEventListener("input", event => {
  view.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  refresh();
});
byID("fit").addEventListener("change", () => drawRows(false));
addEventListener("resize", () => drawRows(false));
addEventListener("beforeprint", () => drawRows(true));
addEventListener("afterprint", () => drawRows(false));

drawFigures();
drawPath();
drawTimes();
drawGroups(grouped.find(groups => groups.count > 1)?.key ?? "host", false);
drawLists();
drawFilters();
drawHead();
refresh();
// Publishes the page's figures, which measurements read.
Object.assign(byID("summary").dataset, { rows: all.length, requests: data.requests, bytes: data.bytes,
  attempts: data.attempts, milliseconds: Math.round(performance.now()) });
