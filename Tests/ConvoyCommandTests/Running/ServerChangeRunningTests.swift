import ConvoyTesting
import Foundation
import Testing

/// Changes a server between two runs, and compares the command with other programs that continue downloads.
///
/// `CONVOY_PEERS=1` in the environment runs and prints the full table with aria2c, wget and curl, if they are
/// installed. By default only the command runs, in the rows in which a server ignores `If-Range` and sends a 206 of
/// a file with the same length.
@Suite(.serialized) struct ServerChangeRunningTests {
    struct Row: CustomStringConvertible {
        var validator: String
        var honoursIfRange: Bool
        var length: String
        var answer: Int

        var description: String {
            "\(validator), If-Range \(honoursIfRange ? "honoured" : "ignored"), \(length), \(answer)"
        }

        static let all: [Row] = ["kept", "dropped", "weak", "changed"].flatMap { validator in
            [true, false].flatMap { honoursIfRange in
                ["same", "shorter", "longer"].flatMap { length in
                    [200, 206, 416].map { answer in
                        Row(validator: validator, honoursIfRange: honoursIfRange, length: length, answer: answer)
                    }
                }
            }
        }

        /// The server's present content.
        ///
        /// The bytes are new unless the strong validator and the length stay the same.
        var content: Data {
            switch (validator, length) {
            case ("kept", "same"): ServerChangeRunningTests.old
            case (_, "same"): ServerChangeRunningTests.new.prefix(2_200_000)
            case (_, "shorter"): ServerChangeRunningTests.new.prefix(2_100_000)
            default: ServerChangeRunningTests.new
            }
        }

        var fields: [(String, String)] { Self.fields(validator) }

        static func fields(_ validator: String) -> [(String, String)] {
            let date = ("Date", "Sat, 21 Nov 2026 12:00:00 GMT")
            return switch validator {
            case "kept": [date, ("ETag", "\"v1\""), ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")]
            case "weak": [date, ("ETag", "W/\"v1\""), ("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")]
            case "changed": [date, ("ETag", "\"v2\""), ("Last-Modified", "Sat, 21 Nov 2026 11:00:00 GMT")]
            default: [date]
            }
        }

        func reply(to request: RecordedRequest) -> Reply {
            let (content, fields) = (content, fields)
            let ends = request.value(of: "Range").flatMap { field -> (Int, Int?)? in
                let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
                return ends.first.flatMap { Int($0) }.map { ($0, ends.count > 1 ? Int(ends[1]) : nil) }
            }
            let isOther =
                honoursIfRange
                && request.value(of: "If-Range").map { asked in !fields.contains { $0.1 == asked } } ?? false
            guard let ends, !isOther, answer != 200 else {
                return .status(200, headerFields: fields, body: content)
            }
            guard answer == 206, ends.0 < content.count else {
                return .status(416, headerFields: fields + [("Content-Range", "bytes */\(content.count)")])
            }
            let range = ends.0..<min(ends.1 ?? .max, content.count - 1) + 1
            let field = ("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(content.count)")
            return .status(206, headerFields: fields + [field], body: content[range])
        }
    }

    /// The result of a program.
    enum Outcome: String, CaseIterable { case right, failed, outdated, wrong }

    static let old = Reply.pattern(range: 0..<2_200_000)
    static let new = Reply.pattern(range: 80_000_000..<83_000_000)
    private static let isWhole = ProcessInfo.processInfo.environment["CONVOY_PEERS"] != nil

    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
    }

    private func arguments(_ program: String) -> [String] {
        let url = server.url("/file").absoluteString
        let (file, folder) = (directory.url.appending(path: "file").path, directory.url.path)
        return switch program {
        case "convoy": ["fetch", "--quiet", "--retries", "0", "-o", folder, url]
        case "convoy --segments": ["fetch", "--quiet", "--retries", "0", "--segments", "2", "-o", folder, url]
        case "aria2c":
            ["aria2c", "-c", "-q", "-x1", "-s1", "--max-tries=1", "--auto-file-renaming=false", "-d", folder, url]
        case "aria2c -x2":
            [
                "aria2c", "-c", "-q", "-x2", "-s2", "-k1M", "--max-tries=1", "--auto-file-renaming=false", "-d", folder,
                url,
            ]
        case "wget": ["wget", "-q", "-c", "--tries=1", "-O", file, url]
        default: ["curl", "-sSf", "-C", "-", "-o", file, url]
        }
    }

    private func run(_ program: String) async throws -> Int32 {
        let arguments = arguments(program)
        if arguments[0] == "fetch" { return try await ConvoyProcess(arguments).ended().status }
        return try await ConvoyProcess(program: "/usr/bin/" + arguments[0], Array(arguments.dropFirst())).ended().status
    }

    private func outcome(of program: String, _ row: Row) async throws -> Outcome {
        for name in try directory.names() {
            try FileManager.default.removeItem(at: directory.url.appending(path: name))
        }
        server.respond { request in
            let before = Row(validator: "kept", honoursIfRange: true, length: "same", answer: 206)
            let isProbe = request.value(of: "Range") == "bytes=0-0"
            return isProbe ? before.reply(to: request) : before.reply(to: request).resetting(afterBytes: 900_000)
        }
        _ = try await run(program)
        server.respond { row.reply(to: $0) }
        guard try await run(program) == 0 else {
            // Other programs write directly to the final name, so a file after a failed run proves nothing about
            // them.
            let names = try directory.names()
            let isThere = program.hasPrefix("convoy") && names.contains("file")
            return isThere ? .wrong : .failed
        }
        let data = FileManager.default.contents(atPath: directory.url.appending(path: "file").path)
        return data == row.content ? .right : data == Self.old ? .outdated : .wrong
    }

    @Test func noRowGivesAWrongFile() async throws {
        let rows = Row.all.filter {
            Self.isWhole || !$0.honoursIfRange && $0.answer == 206 && $0.length == "same"
        }
        for program in ["convoy", "convoy --segments"] {
            var counts: [Outcome: Int] = [:]
            for row in rows {
                let outcome = try await outcome(of: program, row)
                counts[outcome, default: 0] += 1
                #expect(outcome == .right, "\(program): \(row)")
            }
            if Self.isWhole { tell(program, counts, []) }
        }
    }

    @Test(.enabled(if: isWhole, "CONVOY_PEERS is not set")) func otherProgramsInTheSameSituation() async throws {
        for program in ["aria2c", "aria2c -x2", "wget", "curl"] {
            guard FileManager.default.isExecutableFile(atPath: "/usr/bin/" + program.prefix { $0 != " " }) else {
                print("\(program) is not installed")
                continue
            }
            var counts: [Outcome: Int] = [:]
            var wrong: [String] = []
            for row in Row.all {
                let outcome = try await outcome(of: program, row)
                counts[outcome, default: 0] += 1
                if [.wrong, .outdated].contains(outcome) { wrong.append("\(row): \(outcome)") }
            }
            tell(program, counts, wrong)
        }
    }

    private func tell(_ program: String, _ counts: [Outcome: Int], _ wrong: [String]) {
        print("\(program): " + Outcome.allCases.map { "\(counts[$0, default: 0]) \($0)" }.joined(separator: ", "))
        for row in wrong { print("    \(row)") }
    }
}
