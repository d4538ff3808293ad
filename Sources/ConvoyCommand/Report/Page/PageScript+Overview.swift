// The part of the script that draws the overview: times, groups, failures, slow requests.

extension PageScript {
    /// Draws figures that the command has computed.
    ///
    /// A click on a figure filters the rows.
    static let overview = #"""
        const sideNames = data.sides.map(side => side.name);
        const isComparison = data.sides.length > 1;
        // The rules are those of `RequestRecord.group`.
        function groupOf(key, row) {
          if (key === "status") return row.status > 0 ? String(row.status) : row.code || data.outcomes[row.outcome][0];
          const [, host, path] = /^(?:[^:]*:\/\/([^/?#]*))?([^?#]*)/.exec(row.url);
          if (key === "host") return host || "";
          return row.name || [row.method, path.replace(/[0-9]+/g, "*")].filter(Boolean).join(" ");
        }
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
          const { edges, logarithmic, bars } = data.histogram;
          if (edges.length === 0) return;
          byID("times").hidden = false;
          const titles = ["requests", "50 %", "90 %", "99 %", "max"];
          data.sides.forEach((side, s) => {
            const list = s === 0 ? byID("times").querySelector(".percentiles") : make("ul", "percentiles");
            if (isComparison) list.append(make("li", "side side" + s, side.name));
            list.append(...side.times.map((value, i) => make("li", "",
              make("b", "", i === 0 ? number(value) : time(value)), make("span", "", titles[i]))));
            if (s > 0) byID("times").querySelector(".bars").before(list);
          });
          const last = edges.length - 2;
          const isInBar = (us, i) => (i === 0 || us >= edges[i]) && (i === last || us < edges[i + 1]);
          const most = Math.max(1, ...bars.flat().map(bar => bar[0]));
          byID("times").querySelector(".bars").append(...edges.slice(0, -1).map((edge, i) => {
            const counts = bars.map(side => side[i]);
            const button = makeButton("", () => pick(time(edge) + " to " + time(edges[i + 1]),
              row => row.time >= 0 && isInBar(row.time, i)));
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
          drawTicks(edges[0], edges.at(-1), logarithmic);
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
          const section = byID("groups"), groups = data.groups.find(groups => groups.key === key);
          section.hidden = data.rows.length === 0;
          section.querySelector(".tabs").replaceChildren(...data.groups.map(other => {
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
          list("slowest", "Slowest", data.slowest.map(place => all[place]), 0, null,
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
        """#
}
