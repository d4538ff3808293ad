// The fields of a form, as browsers write them (WHATWG URL, section 5.2).
import Foundation

enum FormFields {
    /// The fields as `application/x-www-form-urlencoded`, in UTF-8.
    static func encoded(_ items: [URLQueryItem]) -> Data {
        let pairs = items.map {
            PercentEscaper.form.escaped($0.name) + "=" + PercentEscaper.form.escaped($0.value ?? "")
        }
        return Data(pairs.joined(separator: "&").utf8)
    }
}
