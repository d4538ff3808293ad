import Convoy
import Foundation

/// Names, URLs and messages are untrusted: the page contains them as JSON that cannot end the HTML element, the script
/// inserts them only as text, and the content security policy allows only the page's script and style.
enum ReportPage {
    static let script = String(decoding: PackageResources.page_js, as: UTF8.self)
    static let style = String(decoding: PackageResources.page_css, as: UTF8.self)
    private static let page = String(decoding: PackageResources.page_html, as: UTF8.self)

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
