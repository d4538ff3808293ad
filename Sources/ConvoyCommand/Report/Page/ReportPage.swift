// An HTML page about requests: one file that needs no network.
import Convoy
import Foundation

/// Makes the page of a report from `page.html`, `page.css` and `page.js`, which the program contains.
///
/// Names, URLs and messages are untrusted. The page contains them as JSON that cannot end the HTML element. The script
/// inserts them only as text. The content security policy of the page allows only its script and its style.
/// No other content is loaded.
enum ReportPage {
    static let script = String(decoding: PackageResources.page_js, as: UTF8.self)
    static let style = String(decoding: PackageResources.page_css, as: UTF8.self)
    private static let page = String(decoding: PackageResources.page_html, as: UTF8.self)

    /// - Parameter sides: one report, or two to compare. The page has the title of the first report.
    static func text(_ sides: Report..., made: Date = Date()) -> String { text(sides, made: made) }

    static func text(_ sides: [Report], made: Date = Date()) -> String {
        let values = [
            "nonce": UUID().uuidString, "version": Version.current, "style": style, "script": script,
            "data": PageData(sides, made: made).text,
        ]
        // One pass, so that a text of a server with double braces is not replaced.
        return page.replacing(#/{{([a-z]+)}}/#) { values[String($0.1)] ?? "" }
    }
}
