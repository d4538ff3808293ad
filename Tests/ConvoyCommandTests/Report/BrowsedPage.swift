import Foundation

@testable import ConvoyCommand

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
        let most = 0;
        for (let i = 0; i < 100; i++) {
          scroll.scrollTop = i * \(28 * Self.count / 100);
          const start = performance.now();
          drawRows(false);
          most = Math.max(most, performance.now() - start);
        }
        told.drawing = most;
        Object.assign(document.body.dataset, told);
        """

    private static let picking = """
        const told = {}, labels = id => [...byID(id).querySelectorAll(".link .cut")];
        window.requestAnimationFrame = draw => draw();
        told.failures = labels("failures").length + " " + labels("slowest").length;
        told.title = labels("failures")[0].title;
        const count = data.histogram.bars[0].reduce((sum, bar) => sum + bar[0], 0);
        let picked = 0;
        for (const bar of byID("times").querySelectorAll(".bars button")) {
          bar.click();
          if (!bar.disabled) picked += view.shown.length;
        }
        told.bars = count + " " + picked;
        for (const { key, rows } of data.groups) {
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
