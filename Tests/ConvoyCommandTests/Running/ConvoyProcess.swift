import Foundation
import Testing

/// The built command as a child process with a time limit.
final class ConvoyProcess {
    /// The status and the output of an ended process.
    struct Ending {
        var status: Int32
        var isSignalled: Bool
        var output: String
        var errors: String

        /// The JSON objects of the output, one per line.
        var events: [[String: Any]] { ConvoyProcess.events(of: output) }

        /// The names of the events in order, without `progress` events, which a timer triggers.
        var steps: [String?] { events.map { $0["event"] as? String }.filter { $0 != "progress" } }

        func events(named name: String) -> [[String: Any]] { events.filter { $0["event"] as? String == name } }

        /// The values of the first event of a name, with blanks between them; `nil` for one that the event lacks.
        func values(_ name: String, _ keys: String...) -> String {
            let event = events(named: name).first ?? [:]
            return keys.map { key in event[key].map { "\($0)" } ?? "nil" }.joined(separator: " ")
        }
    }

    private let process: ChildProcess

    /// Starts the command, or another program.
    ///
    /// - Parameters:
    ///   - program: The path of another program.
    ///   - directory: The working directory; that of the tests by default.
    ///   - variables: Variables to add to the environment of the tests; nil removes a variable.
    ///   - input: The standard input; empty by default.
    ///   - output: The standard output. By default a file, whose text the ending contains.
    ///   - errors: The standard error. By default a file, whose text the ending contains.
    init(
        program: String? = nil, _ arguments: [String], in directory: URL? = nil, variables: [String: String?] = [:],
        input: Any? = nil, output: Any? = nil, errors: Any? = nil
    ) throws {
        process = try ChildProcess(
            program.map { URL(filePath: $0) } ?? Self.executable(), arguments,
            environment: variables.merging(["TERM": "xterm"]) { $1 }, in: directory, input: input, output: output,
            errors: errors)
    }

    /// Starts the command under another program, after that program's arguments.
    convenience init(under program: String, _ programArguments: [String], _ arguments: [String]) throws {
        try self.init(program: program, programArguments + [Self.executable().path] + arguments)
    }

    /// Starts a shell with a script in which `$0` is the command.
    convenience init(shell script: String, _ arguments: [String], input: Any? = nil, output: Any? = nil) throws {
        try self.init(
            program: "/bin/sh", ["-c", script, Self.executable().path] + arguments, input: input, output: output)
    }

    /// The path of curl, for comparisons.
    static let curl = ["/usr/bin/curl", "/usr/local/bin/curl", "/opt/homebrew/bin/curl"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    /// Returns the JSON objects of a text, one per line.
    static func events(of text: String) -> [[String: Any]] {
        text.split(separator: "\n").compactMap { line in
            try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        }
    }

    func send(_ signal: Int32) { process.send(signal) }

    /// Waits until the command ends.
    ///
    /// A command that exceeds the time limit of ``ChildProcess`` is killed, and an issue is recorded.
    ///
    /// - Parameters:
    ///   - status: The exit status that the test expects; nil for any.
    ///   - prints: What the test expects on standard output.
    ///   - errors: What the test expects on standard error.
    ///   - mayBeKilled: Whether the test expects an end by a signal.
    @discardableResult
    func ended(
        status: Int32? = nil, prints: Texts? = nil, errors: Texts? = nil, mayBeKilled: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> Ending {
        let end = await process.ended()
        if end.isSignalled, !mayBeKilled {
            Issue.record("the command ended by signal \(end.status)", sourceLocation: sourceLocation)
        }
        let ending = Ending(
            status: end.status, isSignalled: end.isSignalled, output: process.output,
            errors: Self.withoutLoader(process.errors))
        if let status {
            #expect(end.status == status, "\(ending.errors)\(ending.output)", sourceLocation: sourceLocation)
        }
        let both = ending.output + ending.errors
        prints?.expect(in: ending.output, "in \(both)", sourceLocation)
        errors?.expect(in: ending.errors, "in \(both)", sourceLocation)
        return ending
    }

    /// Whether the loader prints no warnings.
    ///
    /// `LD_LIBRARY_PATH` may select a libcurl without symbol versions. The loader then prints
    /// a warning to standard error.
    static let hasSilentLoader = ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"] == nil

    private static func withoutLoader(_ text: String) -> String {
        guard !hasSilentLoader else { return text }
        return text.split(separator: "\n", omittingEmptySubsequences: false)
            .filter { !$0.contains(": no version information available") }.joined(separator: "\n")
    }

    static func executable() throws -> URL { try ChildProcess.program("convoy") }

    /// Reads until the text has arrived or all writers have closed the descriptor.
    ///
    /// Blocks a separate dispatch queue, not the task's thread. Reading ends after two minutes without data.
    static func text(from descriptor: Int32, until text: String? = nil) async -> String {
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "reading").async {
                var (seen, block) = ([UInt8](), [UInt8](repeating: 0, count: 4_096))
                while true {
                    var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                    guard poll(&request, 1, 120_000) > 0 else { break }
                    let count = read(descriptor, &block, block.count)
                    guard count > 0 else { break }
                    seen += block.prefix(count)
                    if let text, String(decoding: seen, as: UTF8.self).contains(text) { break }
                }
                continuation.resume(returning: String(decoding: seen, as: UTF8.self))
            }
        }
    }
}

/// Texts that an output contains; an empty text means that there is no output.
///
/// A text after `^` is at the start of the output, one before `$` at its end, and one after `!` is not in it.
struct Texts: ExpressibleByStringInterpolation, ExpressibleByArrayLiteral {
    let all: [String]

    func expect(in output: String, _ place: String, _ sourceLocation: SourceLocation = #_sourceLocation) {
        for text in all {
            #expect(Self.matches(text, output), "\(text) \(place)", sourceLocation: sourceLocation)
        }
    }

    private static func matches(_ text: String, _ output: String) -> Bool {
        let (isStart, isEnd) = (text.hasPrefix("^") || text == "", text.hasSuffix("$") || text == "")
        let plain = String(text.dropFirst(text.hasPrefix("^") ? 1 : 0).dropLast(text.hasSuffix("$") ? 1 : 0))
        if isStart, isEnd { return output == plain }
        if text.hasPrefix("!") { return !output.contains(plain.dropFirst()) }
        return isStart ? output.hasPrefix(plain) : isEnd ? output.hasSuffix(plain) : output.contains(plain)
    }

    init(stringLiteral text: String) { all = [text] }
    init(arrayLiteral texts: String...) { all = texts }
}

/// One argument, or several.
protocol Arguments {
    var words: [String] { get }
}

extension String: Arguments {
    var words: [String] { [self] }
}

extension [String]: Arguments {
    var words: [String] { self }
}

/// The command with arguments before and after those of a test.
struct Invocation {
    let first: [String]
    let last: [String]

    init(_ first: [String] = [], last: [String] = []) { (self.first, self.last) = (first, last) }

    /// Runs the command to its end, and expects an exit status, by default success, and outputs.
    @discardableResult
    func callAsFunction(
        _ arguments: any Arguments..., input: Any? = nil, output: Any? = nil, status: Int32? = 0, prints: Texts? = nil,
        errors: Texts? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(first + arguments.flatMap(\.words) + last, input: input, output: output).ended(
            status: status, prints: prints, errors: errors, sourceLocation: sourceLocation)
    }

    /// Runs a shell with a script in which `$0` is the command.
    @discardableResult
    func callAsFunction(
        shell script: String, _ arguments: any Arguments..., status: Int32? = 0, prints: Texts? = nil,
        errors: Texts? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(shell: script, arguments.flatMap(\.words)).ended(
            status: status, prints: prints, errors: errors, sourceLocation: sourceLocation)
    }
}

/// The command without other arguments than those of a test.
let convoy = Invocation()

extension String {
    /// The words of a line of shell; nil if only a shell can read it.
    var shellWords: [String]? {
        var (words, word, quote) = ([String](), String?.none, Character?.none)
        for character in self {
            if character == quote {
                quote = nil
            } else if quote == nil, character == " " {
                words += word.map { [$0] } ?? []
                word = nil
            } else if quote == nil, "'\"".contains(character) {
                (word, quote) = (word ?? "", character)
            } else if quote != "'", "\\$`".contains(character) || quote == nil && "|&;<>()*?[]~#".contains(character) {
                return nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        return quote == nil ? words + (word.map { [$0] } ?? []) : nil
    }
}

extension Pipe {
    /// Reads the pipe until the text has arrived or all writers have closed the pipe.
    func text(until text: String? = nil) async -> String {
        let seen = await ConvoyProcess.text(from: fileHandleForReading.fileDescriptor, until: text)
        return withExtendedLifetime(self) { seen }
    }
}
