// The script of the page. Text of events is inserted only as text nodes, and styles are set by properties.

enum PageScript {
    /// The model: the requests, their names, filters and order.
    static let model = #"""
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
        """#
}
