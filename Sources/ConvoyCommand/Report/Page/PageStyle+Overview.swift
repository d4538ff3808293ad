// The style of the overview.

extension PageStyle {
    static let overview = #"""
        #overview { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px; margin-top: 12px; }
        #overview section { background: var(--panel); border-radius: 6px; padding: 9px 12px; min-width: 0; }
        .percentiles { gap: 4px 18px; margin-bottom: 8px; }
        .percentiles b { display: block; font-size: 15px; font-weight: 600; }
        .percentiles span, .ticks, #overview th, #overview small, #sides th { color: var(--soft); font-size: 12.5px;
          font-weight: normal; }
        .percentiles .side { align-self: center; flex: 0 1 130px; overflow: hidden; text-overflow: ellipsis;
          white-space: nowrap; }
        .bars { display: flex; height: 96px; gap: 1px; border-bottom: 1px solid var(--line); }
        .bars button { flex: 1 1 0; display: flex; align-items: flex-end; gap: 1px; min-width: 0; padding: 0; border: 0;
          background: none; cursor: pointer; }
        .bars button:hover, .bars button:focus-visible { background: var(--select); }
        .bars button:disabled { cursor: default; background: none; }
        .bars .side0, .bars .side1 { flex: 1 1 0; background: var(--receive); border-radius: 1px 1px 0 0;
          overflow: hidden; }
        .bars .side1 { background: var(--connect); }
        .bars .bad { display: block; background: var(--bad); }
        .ticks { position: relative; height: 17px; }
        .ticks span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
        .ticks .end { transform: translateX(-100%); } .ticks .start { transform: none; }
        .side::before { content: ""; display: inline-block; width: 10px; height: 10px; border-radius: 2px;
          margin-right: 5px; background: var(--receive); }
        .side1::before { background: var(--connect); }
        .side2::before { content: none; }
        .tabs { display: flex; flex-wrap: wrap; gap: 5px; margin-bottom: 6px; }
        .tabs button, #filters .only { border: 1px solid var(--line); border-radius: 13px; padding: 2px 10px;
          font: inherit; font-size: 13px; background: none; color: var(--soft); cursor: pointer; }
        .tabs button[aria-pressed=true] { background: var(--select); color: var(--ink); border-color: var(--accent); }
        #filters .only { display: flex; max-width: 260px; white-space: pre; }
        #filters .side { max-width: 200px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
        #groups table { width: 100%; table-layout: auto; border-collapse: collapse; }
        #groups td, #groups th, #sides td, #sides th { text-align: right; padding: 1px 0 1px 12px; white-space: nowrap;
          font-variant-numeric: tabular-nums; }
        #groups td:first-child { width: 99%; max-width: 0; padding-left: 0; text-align: left; }
        #overview td.bad, #overview small.failed, #overview small.unsent { color: var(--bad); }
        #overview td.slower, #overview small.cancelled { color: var(--warn); }
        #overview ol { list-style: none; margin: 0 0 4px; padding: 0; }
        .link { display: flex; width: 100%; gap: 10px; align-items: baseline; padding: 1px 0; border: 0; font: inherit;
          background: none; color: inherit; text-align: left; cursor: pointer; }
        .link:hover .cut, button.link:hover { color: var(--accent); }
        .link small { margin-left: auto; flex: none; max-width: 50%; overflow: hidden; text-overflow: ellipsis;
          white-space: nowrap; font-variant-numeric: tabular-nums; }
        .cut { display: inline-flex; min-width: 0; max-width: 100%; white-space: pre; vertical-align: bottom; }
        .cut > :first-child, .cut > :only-child { flex: 0 1 auto; overflow: hidden; text-overflow: ellipsis; min-width: 0; }
        .cut > :last-child:not(:only-child) { flex: none; }
        .row .what { display: flex; gap: 8px; align-items: baseline; }
        .what > .cut { flex: none; max-width: 60%; }
        .what > .long { flex: 0 2 auto; min-width: min(100%, 200px); max-width: none; }
        .what small { flex: 0 1 auto; min-width: 50px; overflow: hidden; text-overflow: ellipsis; }
        .what .target { flex: 0 5 auto; min-width: 105px; }
        #sides table { width: 100%; border-collapse: collapse; }
        #sides th:first-child, #sides td:first-child { text-align: left; padding-left: 0; }
        #sides th { max-width: 240px; overflow: hidden; text-overflow: ellipsis; }
        #rows .of-side1 { border-left-color: var(--connect); } #rows .of-side0 { border-left-color: var(--receive); }
        @media (max-width: 760px) {
          #overview { grid-template-columns: minmax(0, 1fr); gap: 8px; }
          .wide-table { overflow-x: auto; }
          #groups td:first-child { min-width: 110px; } #groups .single :nth-child(5) { display: none; }
          #groups td, #groups th { padding-left: 8px; font-size: 13px; }
          .what > .long { min-width: min(100%, 110px); } .what small { display: none; }
          .percentiles { gap: 4px 12px; } .percentiles .side { flex-basis: 100%; }
          #sides th { max-width: 110px; }
        }
        """#
}
