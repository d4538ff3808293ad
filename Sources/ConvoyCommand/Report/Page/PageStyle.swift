// The style of the page: light and dark, wide and narrow, for printing.

enum PageStyle {
    static let text = #"""
        :root {
          --ground: #ffffff; --panel: #f4f5f7; --line: #d9dce1; --ink: #1b1f24; --soft: #59636e; --accent: #0b62d6;
          --bad: #c0212e; --good: #1a7f37; --warn: #8a5a00; --select: #e3eefc;
          --queued: #d0d5dc; --blocked: #b49ad6; --lookup: #1e9e94; --connect: #e08a1e; --tls: #c2479b;
          --wait: #4aa564; --receive: #2f77d0; --delay: #e4a5a5; --row: 28px;
          font: 14px/1.4 system-ui, "Segoe UI", "Noto Sans", sans-serif; color: var(--ink);
          background: var(--ground); color-scheme: light dark;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #14171c; --panel: #1d2127; --line: #343a43; --ink: #e4e7eb; --soft: #9aa4b0;
            --accent: #6cabff; --bad: #ff7b7b; --good: #5cc47a; --warn: #e0b050; --select: #1f3350;
            --queued: #454c57; --blocked: #7d62a8; --lookup: #2fb5aa; --connect: #d98a2b; --tls: #cf5fae;
            --wait: #3f9659; --receive: #4a8fe2; --delay: #7c4448;
          }
        }
        * { box-sizing: border-box; }
        [hidden] { display: none !important; }
        body { margin: 0; min-height: 100vh; display: flex; flex-direction: column; }
        header { padding: 14px 18px 8px; }
        h1 { font-size: 18px; margin: 0; overflow-wrap: anywhere; }
        h2 { font-size: 14px; margin: 0 0 4px; }
        ul { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; }
        #when { margin: 2px 0 10px; color: var(--soft); }
        #figures { gap: 8px; }
        #figures li { background: var(--panel); border-radius: 6px; padding: 5px 11px; min-width: 84px; }
        #figures b { display: block; font-size: 17px; font-weight: 600; }
        #figures span, #legend, label { color: var(--soft); font-size: 12.5px; }
        #figures .bad b, .failed .state, .unsent .state, p.bad, .what small.bad { color: var(--bad); }
        .succeeded .state { color: var(--good); }
        .unfinished .state, .cancelled .state { color: var(--warn); }
        .skipped .state { color: var(--soft); }
        #remarks { flex-direction: column; margin-top: 8px; color: var(--warn); overflow-wrap: anywhere; }
        #path { margin-top: 10px; }
        #path .track { position: relative; height: 24px; background: var(--panel); border-radius: 4px; overflow: hidden; }
        #path button { position: absolute; top: 1px; bottom: 1px; min-width: 3px; padding: 0 5px; border: 0;
          border-left: 1px solid var(--ground); border-radius: 2px; background: var(--accent); color: var(--ground);
          font: inherit; font-size: 12px; text-align: left; overflow: hidden; white-space: nowrap;
          text-overflow: ellipsis; cursor: pointer; }
        \#(overview)
        #tools { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; margin-top: 12px; }
        label { display: flex; align-items: center; gap: 5px; }
        #fit { margin: 0; }
        #search { width: 220px; padding: 5px 9px; border: 1px solid var(--line); border-radius: 6px; font: inherit;
          background: var(--ground); color: inherit; }
        #filters { display: flex; flex-wrap: wrap; gap: 5px; }
        #filters button { border: 1px solid var(--line); border-radius: 13px; padding: 2px 10px; font: inherit;
          font-size: 13px; background: none; color: var(--soft); cursor: pointer; }
        #filters button[aria-pressed=true] { background: var(--select); color: var(--ink); border-color: var(--accent); }
        #legend { gap: 3px 10px; margin-left: auto; }
        #legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 4px; }
        main { flex: none; height: max(320px, 86vh); min-height: 200px; display: flex; flex-direction: column;
          border-top: 1px solid var(--line); }
        .row { display: grid; align-items: center; gap: 0 10px; padding: 0 18px; height: var(--row);
          grid-template-columns: 54px 92px minmax(180px, 5fr) 66px 40px 70px minmax(200px, 7fr);
          font-variant-numeric: tabular-nums; }
        .cached .row { grid-template-columns: 54px 92px minmax(180px, 5fr) 66px 40px 80px 70px minmax(200px, 7fr); }
        .row > * { overflow: hidden; white-space: nowrap; text-overflow: ellipsis; min-width: 0; }
        .row .number { text-align: right; }
        #head { background: var(--panel); border-bottom: 1px solid var(--line); overflow-y: scroll;
          scrollbar-gutter: stable; flex: none; height: 30px; scrollbar-color: transparent transparent; }
        #head button { font: inherit; font-weight: 600; border: 0; padding: 2px 0; background: none; color: inherit;
          cursor: pointer; }
        #head [aria-sort=ascending] button::after { content: " ↑"; }
        #head [aria-sort=descending] button::after { content: " ↓"; }
        .axis { position: relative; }
        .axis span { position: absolute; top: 3px; transform: translateX(-100%); padding-right: 4px; font-size: 12px;
          color: var(--soft); }
        #scroll { flex: 1; overflow-y: scroll; overflow-x: hidden; position: relative; scrollbar-gutter: stable; }
        #rows { position: relative; }
        #rows .row { position: absolute; left: 0; right: 0; cursor: default; border-left: 3px solid transparent;
          padding-left: 15px; }
        #rows .row:hover { background: var(--panel); }
        #rows .critical { border-left-color: var(--accent); }
        #rows .critical .what { font-weight: 600; }
        #rows .selected { background: var(--select) !important; }
        .what small { color: var(--soft); font-size: 12.5px; font-weight: normal; }
        .bar { position: relative; height: 14px; }
        .bar i { position: absolute; top: 2px; bottom: 2px; min-width: 1px; }
        .bar .queued, .bar .blocked, .bar .delay { top: 5px; bottom: 5px; }
        .bar .end { top: 0; bottom: 0; width: 2px; margin-left: -1px; background: var(--bad); }
        .queued { background: var(--queued); } .blocked { background: var(--blocked); }
        .lookup { background: var(--lookup); } .connect { background: var(--connect); } .tls { background: var(--tls); }
        .wait { background: var(--wait); } .receive { background: var(--receive); } .delay { background: var(--delay); }
        #detail { position: sticky; bottom: 0; flex: none; max-height: 42vh; overflow: auto; padding: 10px 18px 14px; background: var(--panel);
          border-top: 1px solid var(--line); }
        #detail h2 { overflow-wrap: anywhere; padding-right: 70px; }
        #detail p { margin: 2px 0; overflow-wrap: anywhere; }
        #detail pre { margin: 6px 0; max-height: 30vh; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
        #detail button { font: inherit; color: var(--accent); background: none; border: 0; padding: 0; cursor: pointer;
          text-decoration: underline; }
        #detail .close { float: right; }
        #detail table { border-collapse: collapse; margin-top: 6px; font-variant-numeric: tabular-nums; }
        #detail td, #detail th { text-align: right; padding: 1px 12px 1px 0; font-weight: normal; white-space: nowrap; }
        #detail th { color: var(--soft); font-size: 12.5px; }
        #detail td:last-child, #detail th:last-child { text-align: left; white-space: normal; overflow-wrap: anywhere;
          min-width: 110px; }
        footer { padding: 4px 18px; font-size: 12.5px; color: var(--soft); border-top: 1px solid var(--line); }
        :focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
        @media (max-width: 760px) {
          :root { --row: 50px; }
          main { height: max(430px, 80vh); }
          #detail { max-height: 60vh; padding: 8px 12px 10px; }
          header { padding: 10px 12px 6px; }
          #figures { gap: 5px; } #figures li { padding: 3px 8px; min-width: 0; } #figures b { font-size: 15px; }
          #search { width: 100%; } #legend { margin-left: 0; }
          .row, .cached .row { grid-template-columns: 84px minmax(0, 1fr) 64px; padding: 0 12px; }
          #rows .row { padding-left: 9px; align-content: center; }
          #head { height: 50px; align-content: center; }
          .row .wide { display: none; }
          .row .axis, .row .bar { grid-column: 1 / -1; }
          .row .axis { height: 20px; } .axis span:first-of-type { display: none; } footer { padding: 4px 12px; }
        }
        @media print {
          :root { --ground: #fff; --panel: #f4f5f7; --ink: #000; --soft: #444; --line: #bbb; color-scheme: light;
            font-size: 11px; --row: 22px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
          body, main, #scroll { display: block; height: auto; min-height: 0; overflow: visible; }
          #search, #filters, label, #detail { display: none; }
          #rows { height: auto !important; }
          #rows .row { position: static; break-inside: avoid; }
        }
        """#
}
