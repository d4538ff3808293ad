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
    }

    private let process: ChildProcess

    /// Starts the command.
    ///
    /// - Parameters:
    ///   - input: The standard input; empty by default.
    ///   - output: The standard output. By default a file, whose text the ending contains.
    ///   - errors: The standard error. By default a file, whose text the ending contains.
    convenience init(_ arguments: [String], input: Any? = nil, output: Any? = nil, errors: Any? = nil) throws {
        try self.init(Self.executable(), arguments, input: input, output: output, errors: errors)
    }

    /// Starts the command under another program, after that program's arguments.
    convenience init(under program: String, _ programArguments: [String], _ arguments: [String]) throws {
        try self.init(URL(filePath: program), programArguments + [Self.executable().path] + arguments)
    }

    /// Starts another program, or the command if it is nil.
    ///
    /// - Parameters:
    ///   - directory: The working directory; that of the tests by default.
    ///   - variables: Variables to add to the environment of the tests; nil removes a variable.
    convenience init(
        program: String?, _ arguments: [String], in directory: URL? = nil, variables: [String: String?] = [:],
        output: Any? = nil
    ) throws {
        try self.init(
            program.map { URL(filePath: $0) } ?? Self.executable(), arguments, variables: variables, in: directory,
            output: output)
    }

    /// Starts a shell with a script in which `$0` is the command.
    convenience init(shell script: String, _ arguments: [String], input: Any? = nil, output: Any? = nil) throws {
        try self.init(
            URL(filePath: "/bin/sh"), ["-c", script, Self.executable().path] + arguments, input: input, output: output)
    }

    private init(
        _ executable: URL, _ arguments: [String], variables: [String: String?] = [:], in directory: URL? = nil,
        input: Any? = nil, output: Any? = nil, errors: Any? = nil
    ) throws {
        process = try ChildProcess(
            executable, arguments, environment: variables.merging(["TERM": "xterm"]) { $1 }, in: directory,
            input: input, output: output, errors: errors)
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
        for (texts, output) in [(prints, ending.output), (errors, ending.errors)] {
            for text in texts?.all ?? [] {
                #expect(text.isEmpty ? output == "" : output.contains(text), "\(text)", sourceLocation: sourceLocation)
            }
        }
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
struct Texts: ExpressibleByStringInterpolation, ExpressibleByArrayLiteral {
    let all: [String]

    init(stringLiteral text: String) { all = [text] }
    init(arrayLiteral texts: String...) { all = texts }
}

/// Runs the command to its end, and expects an exit status, by default success, and outputs.
@discardableResult
func convoy(
    _ arguments: String..., input: Any? = nil, status: Int32? = 0, prints: Texts? = nil, errors: Texts? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
) async throws -> ConvoyProcess.Ending {
    try await ConvoyProcess(arguments, input: input).ended(
        status: status, prints: prints, errors: errors, sourceLocation: sourceLocation)
}

@discardableResult
func convoy(
    _ arguments: [String], output: Any? = nil, status: Int32? = 0, prints: Texts? = nil, errors: Texts? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
) async throws -> ConvoyProcess.Ending {
    try await ConvoyProcess(arguments, output: output).ended(
        status: status, prints: prints, errors: errors, sourceLocation: sourceLocation)
}

/// Runs a shell with a script in which `$0` is the command.
@discardableResult
func convoy(
    shell script: String, _ arguments: [String], status: Int32? = 0, prints: Texts? = nil, errors: Texts? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
) async throws -> ConvoyProcess.Ending {
    try await ConvoyProcess(shell: script, arguments).ended(
        status: status, prints: prints, errors: errors, sourceLocation: sourceLocation)
}

extension Pipe {
    /// Reads the pipe until the text has arrived or all writers have closed the pipe.
    func text(until text: String? = nil) async -> String {
        let seen = await ConvoyProcess.text(from: fileHandleForReading.fileDescriptor, until: text)
        return withExtendedLifetime(self) { seen }
    }
}
