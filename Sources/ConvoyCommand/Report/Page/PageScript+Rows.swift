// The part of the script that draws rows, details and statistics.

extension PageScript {
    /// Draws only the rows near the visible ones, or the first 1,000 for printing, so that the document stays small.
    static let rows = #"""
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
        """#
}
