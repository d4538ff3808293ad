// The rules of HAR 1.2 for an archive: http://www.softwareishard.com/blog/har-12-spec/.
import Foundation

/// The expected form of a value in an archive.
indirect enum HARShape: Sendable {
    case string
    case integer
    /// A time in milliseconds; -1 means that it does not apply, if allowed.
    case time(mayBeMissing: Bool)
    case flag
    case dateTime
    case list(HARShape)
    case object(required: [String: HARShape], optional: [String: HARShape] = [:])

    static let log = HARShape.object(required: [
        "log": .object(
            required: ["version": .string, "creator": creator, "entries": .list(entry)],
            optional: ["browser": creator, "pages": .list(.object(required: [:])), "comment": .string])
    ])

    private static let creator = HARShape.object(
        required: ["name": .string, "version": .string], optional: ["comment": .string])
    private static let entry = HARShape.object(
        required: [
            "startedDateTime": .dateTime, "time": .time(mayBeMissing: false), "request": request, "response": response,
            "cache": .object(required: [:]), "timings": timings,
        ], optional: ["pageref": .string, "serverIPAddress": .string, "connection": .string, "comment": .string])
    private static let request = HARShape.object(
        required: [
            "method": .string, "url": .string, "httpVersion": .string, "cookies": .list(cookie), "headers": .list(pair),
            "queryString": .list(pair), "headersSize": .integer, "bodySize": .integer,
        ],
        optional: [
            "comment": .string,
            "postData": .object(required: ["mimeType": .string], optional: ["text": .string, "comment": .string]),
        ])
    private static let response = HARShape.object(
        required: [
            "status": .integer, "statusText": .string, "httpVersion": .string, "cookies": .list(cookie),
            "headers": .list(pair), "redirectURL": .string, "headersSize": .integer, "bodySize": .integer,
            "content": .object(
                required: ["size": .integer, "mimeType": .string],
                optional: ["compression": .integer, "text": .string, "encoding": .string, "comment": .string]),
        ], optional: ["comment": .string])
    private static let pair = HARShape.object(
        required: ["name": .string, "value": .string], optional: ["comment": .string])
    private static let cookie = HARShape.object(
        required: ["name": .string, "value": .string],
        optional: [
            "path": .string, "domain": .string, "expires": .dateTime, "httpOnly": .flag, "secure": .flag,
            "comment": .string,
        ])
    private static let timings = HARShape.object(
        required: [
            "send": .time(mayBeMissing: false), "wait": .time(mayBeMissing: false),
            "receive": .time(mayBeMissing: false),
        ],
        optional: [
            "blocked": .time(mayBeMissing: true), "dns": .time(mayBeMissing: true),
            "connect": .time(mayBeMissing: true),
            "ssl": .time(mayBeMissing: true), "comment": .string,
        ])

    /// The defects of a value, each with the path to it.
    func defects(of value: Any, at path: String = "") -> [String] {
        switch self {
        case .string: value is String ? [] : ["\(path) is no string"]
        case .flag: "\(value)" == "true" || "\(value)" == "false" || value is Bool ? [] : ["\(path) is no Boolean"]
        case .integer:
            (value as? NSNumber).map { $0.doubleValue == Double($0.intValue) && $0.intValue >= -1 } == true
                ? [] : ["\(path) is no integer from -1 on"]
        case .time(let mayBeMissing):
            (value as? NSNumber).map { $0.doubleValue >= 0 || (mayBeMissing && $0.doubleValue == -1) } == true
                ? [] : ["\(path) is no time"]
        case .dateTime:
            (value as? String)?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil
                ? [] : ["\(path) is no date and time"]
        case .list(let shape):
            (value as? [Any])?.enumerated().flatMap { shape.defects(of: $1, at: "\(path)[\($0)]") }
                ?? ["\(path) is no array"]
        case .object(let required, let optional): Self.defects(of: value, required, optional, at: path)
        }
    }

    private static func defects(
        of value: Any, _ required: [String: HARShape], _ optional: [String: HARShape], at path: String
    ) -> [String] {
        guard let members = value as? [String: Any] else { return ["\(path) is no object"] }
        let missing = required.keys.filter { members[$0] == nil }.map { "\(path).\($0) is missing" }
        return missing
            + members.flatMap { name, member in
                guard let shape = required[name] ?? optional[name] else {
                    // Names of custom fields begin with an underscore: section "Custom fields".
                    return name.hasPrefix("_") ? [] : ["\(path).\(name) is not of HAR 1.2"]
                }
                return shape.defects(of: member, at: "\(path).\(name)")
            }
    }
}

/// A parsed archive.
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
        defects = HARShape.log.defects(of: value)
        let log = (value as? [String: Any])?["log"] as? [String: Any]
        entries = (log?["entries"] as? [[String: Any]] ?? []).map(Entry.init)
    }
}
