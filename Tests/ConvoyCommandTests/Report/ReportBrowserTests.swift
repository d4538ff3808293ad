import Foundation
import Testing

@testable import ConvoyCommand

/// Opens the page in a browser: headless Chromium.
@Suite(.enabled(if: Chromium.isInstalled, "chromium is not installed: apt-get install chromium"))
struct ReportBrowserTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test func aPageShowsItsRowsAndSums() async throws {
        let report = BrowsedPage.report(BrowsedPage.count)
        let dom = try await BrowsedPage.sums.document
        let summary = try Chromium.attributes(of: "summary", in: dom)
        #expect(summary["rows"] == "\(BrowsedPage.count)")
        #expect(summary["requests"] == "\(BrowsedPage.count)")
        #expect(summary["bytes"] == "\(report.sums.bytes)")
        #expect(summary["attempts"] == "\(BrowsedPage.count)")
        print("\(BrowsedPage.count) rows were there \(summary["milliseconds"] ?? "?") ms after the page was asked for")
        #expect(dom.contains("\(BrowsedPage.thousands),000 of \(BrowsedPage.thousands),000 rows"))
        // Failures come first, and text from a server is not HTML.
        #expect(try Chromium.rows(in: dom).first == 42)
        #expect(dom.contains("&lt;img src=x onerror=alert(1)&gt;"))
        // The document contains only the visible rows.
        #expect((10...200).contains(try Chromium.rows(in: dom).count))
        #expect(dom.contains("Critical path: "))
    }

    @Test func rowsAreScrolledSortedSearchedAndSelected() async throws {
        let dom = try await BrowsedPage.scrolled.document
        let told = try Chromium.attributes(in: #require(dom.firstMatch(of: /<body[^>]*>/)).output)
        #expect(told["end"]?.hasSuffix("row\(BrowsedPage.count - 1)") == true)
        #expect(told["selected"] == "row142")
        #expect(told["detail"]?.contains("<img src=x onerror=alert(1)>") == true)
        #expect(told["detail"]?.contains("unacceptable status") == true)
        #expect(told["largest"] == "row\(BrowsedPage.count - 1)")
        #expect(told["found"] == "row1239 row1236 row1233 row1230 row123")
        #expect(told["failures"] == "\(BrowsedPage.count / 100)")
        #expect(told["axis"]?.contains("100.00 s") == false)
        #expect(told["shown"] == "\(BrowsedPage.count) row7")
        print("the slowest of 100 redraws took \(told["drawing"] ?? "?") ms")
    }

    @Test func figuresOfThePagePickTheirRows() async throws {
        let dom = try await BrowsedPage.picked.document
        let told = try Chromium.attributes(in: #require(dom.firstMatch(of: /<body[^>]*>/)).output)
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
        let dom = try await BrowsedPage.compared.document
        let told = try Chromium.attributes(in: #require(dom.firstMatch(of: /<body[^>]*>/)).output)
        #expect(told["rows"] == "2010")
        #expect(told["first"] == "1000")
        let figures = told["figures"]?.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(figures?.contains("requests 1,000 1,010 +1 %") == true)
        #expect(told["when"]?.contains("1,000 requests are in both, 10 in ") == true)
    }

    @Test(.enabled(if: LongRuns.areWanted))
    func aHundredThousandRowsAreDrawn() async throws {
        let dom = try #require(try await Chromium.documents(of: [ReportPage.text(BrowsedPage.report(100_000))]).first)
        let summary = try Chromium.attributes(of: "summary", in: dom)
        #expect(summary["rows"] == "100000")
        print("100,000 rows were there \(summary["milliseconds"] ?? "?") ms after the page was asked for")
    }

    @Test(arguments: [(1400, 900, false), (400, 800, true)])
    func aScreenshotIsTaken(width: Int, height: Int, isDark: Bool) async throws {
        let picture = directory.url.appending(path: "page.png")
        let file = try Chromium.write(ReportPage.text(BrowsedPage.report(300)), in: directory)
        try await Chromium.run(
            ["--window-size=\(width),\(height)", "--screenshot=\(picture.path)"]
                + (isDark ? ["--blink-settings=preferredColorScheme=0"] : []) + [file.absoluteString], in: directory)
        #expect(try Data(contentsOf: picture).count > 10_000)
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

    @discardableResult
    static func run(_ arguments: [String], in directory: TemporaryDirectory) async throws -> String {
        let profile = directory.url.appending(path: "profile").path
        let ending = try await ConvoyProcess(
            program: "/usr/bin/chromium",
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=\(profile)"] + unneeded + arguments
        ).ended()
        #expect(ending.status == 0)
        return ending.output
    }

    static func write(_ page: String, in directory: TemporaryDirectory) throws -> URL {
        let file = directory.url.appending(path: "page.html")
        try Data(page.utf8).write(to: file)
        return file
    }

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
        let file = try write(outer, in: directory)
        // With a budget of virtual time, Chromium prints the document after the timers within that time have run.
        // Without a budget, Chromium prints the document as soon as it is loaded.
        let text = try await run(["--virtual-time-budget=2000", "--dump-dom", file.absoluteString], in: directory)
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
