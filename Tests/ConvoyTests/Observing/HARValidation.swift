// The rules of HAR 1.2 for an archive: http://www.softwareishard.com/blog/har-12-spec/.
import Foundation

/// The members of the objects of HAR 1.2.
enum HARRules {
    /// For each object the members and their forms; those of optional members end with a question mark.
    ///
    /// An array of objects has its own line. A time in milliseconds may be -1, "does not apply", if it is optional.
    private static let members: [String: [String: String]] = {
        let text = """
            : log=object
            log: version=string creator=object entries=list browser=object? pages=list? comment=string?
            log.creator: name=string version=string comment=string?
            log.browser: name=string version=string comment=string?
            log.pages:
            log.entries: startedDateTime=date time=time request=object response=object cache=object timings=object
            log.entries: pageref=string? serverIPAddress=string? connection=string? comment=string?
            log.entries.cache:
            log.entries.request: method=string url=string httpVersion=string cookies=list headers=list
            log.entries.request: queryString=list headersSize=integer bodySize=integer postData=object? comment=string?
            log.entries.request.postData: mimeType=string text=string? comment=string?
            log.entries.response: status=integer statusText=string httpVersion=string cookies=list headers=list
            log.entries.response: redirectURL=string headersSize=integer bodySize=integer content=object comment=string?
            log.entries.response.content: size=integer mimeType=string compression=integer? text=string?
            log.entries.response.content: encoding=string? comment=string?
            log.entries.timings: send=time wait=time receive=time blocked=time? dns=time? connect=time? ssl=time?
            log.entries.timings: comment=string?
            headers: name=string value=string comment=string?
            queryString: name=string value=string comment=string?
            cookies: name=string value=string path=string? domain=string? expires=date? httpOnly=flag? secure=flag?
            cookies: comment=string?
            """
        var members: [String: [String: String]] = [:]
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ").map(String.init)
            let path = String(words[0].dropLast())
            var object = members[path] ?? [:]
            for word in words.dropFirst() {
                let parts = word.split(separator: "=").map(String.init)
                object[parts[0]] = parts[1]
            }
            members[path] = object
        }
        return members
    }()

    static func defects(of value: Any, at path: String = "") -> [String] {
        let last = path.split(separator: ".").last.map(String.init) ?? ""
        guard let object = value as? [String: Any], let rules = members[path] ?? members[last] else {
            return ["\(path) is no object"]
        }
        let missing = rules.filter { object[$0.key] == nil && !$0.value.hasSuffix("?") }.map { "\(path).\($0.key)" }
        return missing.map { "\($0) is missing" }
            + object.flatMap { name, member -> [String] in
                let place = path.isEmpty ? name : "\(path).\(name)"
                // Names of custom fields begin with an underscore: section "Custom fields".
                guard let rule = rules[name] else { return name.hasPrefix("_") ? [] : ["\(place) is not of HAR 1.2"] }
                return switch rule.prefix(while: \.isLetter) {
                case "object": defects(of: member, at: place)
                case "list": (member as? [Any])?.flatMap { defects(of: $0, at: place) } ?? ["\(place) is no array"]
                default: isValid(member, rule) ? [] : ["\(place) is no \(rule)"]
                }
            }
    }

    private static func isValid(_ value: Any, _ rule: String) -> Bool {
        let number = (value as? NSNumber)?.doubleValue
        return switch rule {
        case "string", "string?": value is String
        case "flag?": value is Bool || ["true", "false"].contains("\(value)")
        case "integer", "integer?": number.map { $0 == $0.rounded() && $0 >= -1 } == true
        case "time": number.map { $0 >= 0 } == true
        case "time?": number.map { $0 >= 0 || $0 == -1 } == true
        default: (value as? String)?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil
        }
    }
}

struct ReadHAR {
    let defects: [String]
    let entries: [Entry]

    struct Entry {
        let members: [String: Any]

        func member(_ names: String...) -> Any? {
            names.reduce(members as Any?) { ($0 as? [String: Any])?[$1] }
        }
        func time(_ name: String) -> Double { (member("timings", name) as? NSNumber)?.doubleValue ?? .nan }
        var time: Double { (member("time") as? NSNumber)?.doubleValue ?? .nan }
        var status: Int { (member("response", "status") as? NSNumber)?.intValue ?? -1 }
        var url: String { member("request", "url") as? String ?? "" }
        var started: String { member("startedDateTime") as? String ?? "" }
        /// The sum of the timings that apply, by the section "timings" of HAR 1.2.
        ///
        /// `ssl` is omitted, because `connect` includes it.
        var sumOfTimings: Double {
            ["blocked", "dns", "connect", "send", "wait", "receive"].map(time).filter { $0 != -1 }.reduce(0, +)
        }
        func fields(_ message: String) -> [String] {
            (member(message, "headers") as? [[String: Any]] ?? []).map { "\($0["name"] ?? ""): \($0["value"] ?? "")" }
        }
    }

    init(_ data: Data) throws {
        let value = try JSONSerialization.jsonObject(with: data)
        defects = HARRules.defects(of: value)
        let log = (value as? [String: Any])?["log"] as? [String: Any]
        entries = (log?["entries"] as? [[String: Any]] ?? []).map(Entry.init)
    }
}
