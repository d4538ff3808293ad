// An HTML page about requests: one file that needs no network.
import Convoy
import Foundation

/// Makes the page of a report.
///
/// Names, URLs and messages are untrusted. The page contains them as JSON that cannot end the HTML element. The script
/// inserts them only as text. The content security policy of the page allows only its script and its style.
/// No other content is loaded.
enum ReportPage {
    /// - Parameter sides: one report, or two to compare. The page has the title of the first report.
    static func text(_ sides: Report..., made: Date = Date()) -> String { text(sides, made: made) }

    static func text(_ sides: [Report], made: Date = Date()) -> String {
        let nonce = UUID().uuidString
        let policy =
            "default-src 'none'; script-src 'nonce-\(nonce)'; style-src 'nonce-\(nonce)'; base-uri 'none'; "
            + "form-action 'none'"
        return """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta http-equiv="Content-Security-Policy" content="\(policy)">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <meta name="generator" content="Convoy \(Version.current)">
            <title>Convoy report</title>
            <style nonce="\(nonce)">
            \(PageStyle.text)
            </style>
            </head>
            \(body)
            <script type="application/json" id="data">\(PageData(sides, made: made).text)</script>
            <script nonce="\(nonce)">
            "use strict";
            \(PageScript.model)
            \(PageScript.overview)
            \(PageScript.rows)
            \(PageScript.events)
            </script>
            </html>

            """
    }

    private static let body = """
        <body>
        <header>
        <h1 id="title"></h1>
        <p id="when"></p>
        <ul id="figures" aria-label="Statistics"></ul>
        <ul id="remarks" aria-label="Remarks" hidden></ul>
        <section id="path" aria-label="Critical path" hidden><h2></h2><div class="track"></div></section>
        <div id="overview">
        <section id="sides" aria-label="Both reports" hidden><h2>Both reports</h2></section>
        <section id="times" aria-label="Times" hidden><h2>Times</h2><ul class="percentiles"></ul>
        <div class="bars"></div><div class="ticks"></div></section>
        <section id="groups" aria-label="Groups" hidden><h2>Groups</h2><div class="tabs" role="group"></div>
        <div class="wide-table"></div></section>
        <section id="failures" aria-label="Failures" hidden></section>
        <section id="slowest" aria-label="Slowest" hidden></section>
        <section id="repaired" aria-label="No longer failing" hidden></section>
        </div>
        <div id="tools">
        <input id="search" type="search" placeholder="Search  ( / )" aria-label="Search names, URLs and errors">
        <div id="filters" role="group" aria-label="Show"></div>
        <label><input id="fit" type="checkbox"> fit times to the visible rows</label>
        <ul id="legend" aria-label="Colours"></ul>
        </div>
        <noscript>This page needs JavaScript to show its requests. Turn JavaScript on.</noscript>
        </header>
        <main id="table" role="table" aria-label="Requests">
        <div id="head" class="row" role="row"></div>
        <div id="scroll" role="rowgroup" tabindex="0" aria-label="Requests; arrow keys, Enter for more"><div id="rows">
        </div></div>
        </main>
        <section id="detail" aria-label="The selected request" hidden></section>
        <footer id="summary" role="status"></footer>
        </body>
        """
}
