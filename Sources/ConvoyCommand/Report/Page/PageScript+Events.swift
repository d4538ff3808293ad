// The part of the script that handles keys, clicks and scrolling.

extension PageScript {
    static let events = #"""
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
        drawGroups(data.groups.find(groups => groups.count > 1)?.key ?? "host", false);
        drawLists();
        drawFilters();
        drawHead();
        refresh();
        // Publishes the page's figures, which measurements read.
        Object.assign(byID("summary").dataset, { rows: all.length, requests: data.requests, bytes: data.bytes,
          attempts: data.attempts, milliseconds: Math.round(performance.now()) });
        """#
}
