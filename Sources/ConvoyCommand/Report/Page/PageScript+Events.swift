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
            const button = make("button", "", column.title);
            button.addEventListener("click", () => {
              // A column of numbers first shows its largest values.
              view.down = view.sort === column.key ? !view.down : column.number === true;
              view.sort = column.key;
              drawHead();
              refresh();
              byID("head").querySelector("[aria-sort] button").focus();
            });
            cell.append(button);
            return cell;
          }));
        }
        function drawFilters() {
          const toggle = (words, isOn, change) => {
            const button = make("button", "", words);
            button.setAttribute("aria-pressed", isOn);
            button.addEventListener("click", () => {
              button.setAttribute("aria-pressed", change());
              refresh();
            });
            return button;
          };
          byID("filters").replaceChildren();
          if (view.only) {
            const button = make("button", "only");
            button.append(cut(view.only.words), " ×");
            button.title = "show the other rows again";
            button.setAttribute("aria-pressed", true);
            button.addEventListener("click", () => {
              view.only = null;
              drawFilters();
              refresh();
            });
            byID("filters").append(button);
          }
          if (isComparison) {
            byID("filters").append(...sideNames.map((name, side) => {
              const button = toggle(name, !view.hiddenSides.has(side), () => {
                if (!view.hiddenSides.delete(side)) view.hiddenSides.add(side);
                return !view.hiddenSides.has(side);
              });
              button.classList.add("side", "side" + side);
              return button;
            }));
          }
          byID("filters").append(...data.outcomes.map(([word, count], i) => count === 0 ? "" :
            toggle(word + " " + number(count), !view.hidden.has(i), () => {
              if (!view.hidden.delete(i)) view.hidden.add(i);
              return !view.hidden.has(i);
            })));
          if (critical.size > 1) {
            byID("filters").append(toggle("critical path only", view.onlyPath, () => view.onlyPath = !view.onlyPath));
          }
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
