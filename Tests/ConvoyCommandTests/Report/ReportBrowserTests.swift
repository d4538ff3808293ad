import Foundation
import Testing

@testable import ConvoyCommand

/// Opens the page in a browser: headless Chromium.
@Suite(.enabled(if: Chromium.isInstalled, "chromium is not installed: apt-get install chromium"))
struct ReportBrowserTests {
    @Test func aPageShowsItsRowsAndSums() async throws {
        let report = BrowsedPage.report(BrowsedPage.count)
        let dom = try await BrowsedPage.sums.document
        let summary = try Chromium.attributes(of: "summary", in: dom)
        #expect(summary["rows"] == "\(BrowsedPage.count)")
        #expect(summary["requests"] == "\(BrowsedPage.count)")
        #expect(summary["bytes"] == "\(report.sums.bytes)")
        #expect(summary["attempts"] == "\(BrowsedPage.count)")
        #expect(dom.contains("\(BrowsedPage.thousands),000 of \(BrowsedPage.thousands),000 rows"))
        // Failures come first, and text from a server is not HTML.
        #expect(try Chromium.rows(in: dom).first == 42)
        #expect(dom.contains("&lt;img src=x onerror=alert(1)&gt;"))
        // The document contains only the visible rows.
        #expect((10...200).contains(try Chromium.rows(in: dom).count))
        #expect(dom.contains("Critical path: "))
    }

    @Test func rowsAreScrolledSortedSearchedAndSelected() async throws {
        let told = try await BrowsedPage.scrolled.told
        #expect(told["end"]?.hasSuffix("row\(BrowsedPage.count - 1)") == true)
        #expect(told["selected"] == "row142")
        #expect(told["detail"]?.contains("<img src=x onerror=alert(1)>") == true)
        #expect(told["detail"]?.contains("unacceptable status") == true)
        #expect(told["largest"] == "row\(BrowsedPage.count - 1)")
        #expect(told["found"] == "row1239 row1236 row1233 row1230 row123")
        #expect(told["failures"] == "\(BrowsedPage.count / 100)")
        #expect(told["axis"]?.contains("100.00 s") == false)
        #expect(told["shown"] == "\(BrowsedPage.count) row7")
    }

    @Test func figuresOfThePagePickTheirRows() async throws {
        let told = try await BrowsedPage.picked.told
        #expect(told["failures"] == "10 10")
        #expect(told["title"] == "step 42")
        #expect(told["bars"] == "\(BrowsedPage.count) \(BrowsedPage.count)")
        #expect(told["host"] == "1 true")
        #expect(told["name"] == "200 true")
        #expect(told["status"] == "2 true")
        #expect(told["everything"] == "\(BrowsedPage.count)")
        #expect(told["detail"]?.contains("Retry-After: 30") == true)
        #expect(told["detail"]?.contains("<b>pool 7</b>") == true)
    }

    @Test func twoReportsAreComparedOnOnePage() async throws {
        let told = try await BrowsedPage.compared.told
        #expect(told["rows"] == "2010")
        #expect(told["first"] == "1000")
        let figures = told["figures"]?.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(figures?.contains("requests 1,000 1,010 +1 %") == true)
        #expect(told["when"]?.contains("1,000 requests are in both, 10 in ") == true)
    }
}

/// Debian's Chromium without a window.
enum Chromium {
    static let isInstalled = FileManager.default.isExecutableFile(atPath: "/usr/bin/chromium")

    /// Options that disable services of the browser, because the services make the test slower.
    private static let unneeded = [
        "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync",
        "--disable-component-update", "--disable-default-apps", "--metrics-recording-only",
        "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
    ]

    /// Returns the documents of pages after their scripts have run.
    ///
    /// A start of the browser takes more than a second, so one outer page shows all pages as frames. Each frame sends
    /// its document to the outer page.
    static func documents(of pages: [String]) async throws -> [String] {
        let directory = try TemporaryDirectory()
        for (index, page) in pages.enumerated() {
            let sending = "parent.postMessage([\(index), document.documentElement.outerHTML], '*')"
            let sent = driven(page, by: "addEventListener('load', () => setTimeout(() => \(sending), 0));")
            try Data(sent.utf8).write(to: directory.file("\(index).html"))
        }
        let frames = pages.indices.map { "<iframe src=\"\($0).html\"></iframe>" }.joined()
        let outer = """
            <!doctype html><style>iframe { position: absolute; width: 800px; height: 600px }</style><script>
            addEventListener("message", ({ data: [index, text] }) => {
              const place = document.createElement("p");
              place.dataset.page = index + " " + btoa(unescape(encodeURIComponent(text)));
              document.body.append(place);
            });
            </script><body>\(frames)
            """
        let file = directory.file("page.html")
        try Data(outer.utf8).write(to: file)
        // With a budget of virtual time, Chromium prints the document after the timers within that time have run.
        // Without a budget, Chromium prints the document as soon as it is loaded.
        let text = try await ConvoyProcess(
            program: "/usr/bin/chromium",
            [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=\(directory.file("profile").path)",
                "--virtual-time-budget=2000", "--dump-dom", file.absoluteString,
            ] + unneeded
        ).ended(status: 0).output
        var documents = [String](repeating: "", count: pages.count)
        for part in text.components(separatedBy: "data-page=\"").dropFirst() {
            let words = part.components(separatedBy: "\"")[0].components(separatedBy: " ")
            guard words.count == 2, let index = Int(words[0]), documents.indices.contains(index) else { continue }
            documents[index] = String(decoding: Data(base64Encoded: words[1]) ?? Data(), as: UTF8.self)
        }
        return documents
    }

    /// Returns the page with a test's script after the page's own script.
    ///
    /// The script has the page's nonce, so the page's content security policy permits it.
    static func driven(_ page: String, by script: String) -> String {
        let nonce = page.firstMatch(of: /nonce="([^"]+)"/)?.output.1 ?? ""
        return page.replacing("</html>", with: "<script nonce=\"\(nonce)\">\(script)</script></html>")
    }

    static func rows(in dom: String) throws -> [Int] {
        dom.matches(of: /id="row([0-9]+)"/).compactMap { Int($0.output.1) }
    }

    static func attributes(of id: String, in dom: String) throws -> [String: String] {
        try attributes(in: #require(dom.firstMatch(of: Regex("<[a-z]+ id=\"\(id)\"[^>]*>"))).output[0].substring ?? "")
    }

    /// Returns the `data-` attributes of a tag.
    static func attributes(in tag: Substring) throws -> [String: String] {
        Dictionary(
            tag.matches(of: /data-([a-z]+)="([^"]*)"/).map { match in
                let value = String(match.output.2).replacing("&lt;", with: "<").replacing("&gt;", with: ">")
                return (String(match.output.1), value)
            }
        ) { $1 }
    }
}

/// The pages of the tests, and the scripts that use them like a reader.
///
/// A script stores what it found as `data-` attributes of the body.
enum BrowsedPage: Int, CaseIterable {
    case sums
    case scrolled
    case picked
    case compared

    /// The thousands of requests on a page: 2, or 10 with `CONVOY_LONG=1` in the environment.
    static let thousands = LongRuns.count(2, long: 10)
    static let count = 1_000 * thousands

    private static let documents = Task { try await Chromium.documents(of: allCases.map(\.text)) }

    /// The document after its scripts have run, from one browser for all pages.
    var document: String { get async throws { try await Self.documents.value[rawValue] } }

    /// The `data-` attributes that the script of a test made.
    var told: [String: String] {
        get async throws {
            let dom = try await document
            return try Chromium.attributes(in: #require(dom.firstMatch(of: /<body[^>]*>/)).output)
        }
    }

    var text: String {
        switch self {
        case .sums: ReportPage.text(Self.report(Self.count))
        case .scrolled: Chromium.driven(ReportPage.text(Self.report(Self.count)), by: Self.scrolling)
        case .picked: Chromium.driven(ReportPage.text(Self.report(Self.count)), by: Self.picking)
        case .compared: Chromium.driven(ReportPage.text(Self.report(1_000), Self.report(1_010)), by: Self.comparing)
        }
    }

    /// A report with several kinds of requests: failures, retries, chains.
    static func report(_ count: Int) -> Report {
        var report = Report(title: "convoy run big.http")
        for index in 0..<count {
            var line = EventLine(
                event: "finished", index: index, name: index % 3 == 0 ? "step \(index)" : nil, method: "GET",
                url: "http://127.0.0.1/items/\(index)?page=\(index % 7)", status: 200, bytes: Int64(index), attempts: 1)
            (line.queuedAt, line.lifeSeconds) = (1_000, Double(index + 40) / 100)
            line.timeline = [
                AttemptLine(
                    start: Double(index) / 100, lookup: 0.002, connect: 0.01, tls: 0.03, wait: 0.3, receive: 0.058,
                    status: 200)
            ]
            if index % 10 == 9 { line.after = [index - 5] }
            if index % 100 == 42 {
                (line.event, line.code, line.message) = ("failed", "unacceptableStatus", "<img src=x onerror=alert(1)>")
                (line.bytes, line.status) = (nil, 503)
                line.head = ["Retry-After: 30", "X-Pool: <b>pool 7</b>"]
            }
            report.add(line)
        }
        return report.closed()
    }

    private static let scrolling = """
        const told = {}, rows = () => [...document.querySelectorAll("#rows .row")].map(row => row.id).join(" ");
        // Draws rows at once, because this script reads them before the browser would draw the next frame.
        window.requestAnimationFrame = draw => draw();
        const key = name => scroll.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
        scroll.scrollTop = scroll.scrollHeight;
        scroll.dispatchEvent(new Event("scroll"));
        told.end = rows();
        key("Home");
        key("ArrowDown");
        key("Enter");
        told.selected = document.querySelector(".selected").id;
        told.detail = byID("detail").innerText;
        byID("head").querySelectorAll("button")[3].click();
        told.largest = document.querySelector("#rows .row").id;
        byID("search").value = "items/123 step";
        byID("search").dispatchEvent(new Event("input"));
        told.found = rows();
        byID("search").value = "";
        byID("search").dispatchEvent(new Event("input"));
        [...document.querySelectorAll("#filters button")].find(b => b.textContent.startsWith("succ")).click();
        told.failures = view.shown.length;
        byID("fit").click();
        told.axis = byID("axis").innerText;
        show(7);
        told.shown = view.shown.length + " " + document.querySelector(".selected").id;
        Object.assign(document.body.dataset, told);
        """

    private static let picking = """
        const told = {}, labels = id => [...byID(id).querySelectorAll(".link .cut")];
        window.requestAnimationFrame = draw => draw();
        told.failures = labels("failures").length + " " + labels("slowest").length;
        told.title = labels("failures")[0].title;
        const count = histogram.bars[0].reduce((sum, bar) => sum + bar[0], 0);
        let picked = 0;
        for (const bar of byID("times").querySelectorAll(".bars button")) {
          bar.click();
          if (!bar.disabled) picked += view.shown.length;
        }
        told.bars = count + " " + picked;
        for (const { key, rows } of grouped) {
          drawGroups(key, true);
          const sizes = rows.map(([name, cells], i) => {
            byID("groups").querySelectorAll("td .link")[i].click();
            return view.shown.length === cells[0][0];
          });
          told[key] = sizes.length + " " + sizes.every(Boolean);
        }
        document.querySelector("#filters .only").click();
        told.everything = view.shown.length;
        labels("failures")[0].closest("button").click();
        told.detail = byID("detail").innerText;
        Object.assign(document.body.dataset, told);
        """

    private static let comparing = """
        const told = { rows: view.shown.length, figures: byID("sides").innerText, when: byID("when").innerText };
        document.querySelector("#filters .side1").click();
        told.first = view.shown.length;
        Object.assign(document.body.dataset, told);
        """
}
