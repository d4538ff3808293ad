#if os(Linux)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.enabled(if: ["sh", "curl", "setpriv"].allSatisfy(isInstalled))) struct CURLWireTests {
        private let server: TestServer
        private let directory: TemporaryDirectory

        init() throws {
            (server, directory) = (try TestServer(), try TemporaryDirectory())
            server.respond { _ in .status(200) }
        }

        @Test func hostileRequestsArriveAsTheTransportSendsThem() async throws {
            let count = LongRuns.count(120, long: 1_000)
            let base = "http://127.0.0.1:\(server.port)"
            let hostile = try await HostileRequest.make(count, base: base, directory: directory, seed: 20_261_121)
            #expect(hostile.compactMap(\.request.defect) == [])
            let manager = RequestManager(configuration: .init(maxConcurrentPerHost: 16))
            let results = await manager.batch(hostile.map(\.request)).results
            #expect(results.compactMap(\.failure).map { "\($0)" } == [])
            let sent = server.recordedRequests
            for _ in sent { _ = try await server.takeRequest() }

            let made = await offPool {
                Result { try hostile.map { try $0.request.cURLCommand(revealingSecrets: true) } }
            }
            let commands = try made.get()
            try await run(commands)
            let arrived = server.recordedRequests
            #expect((sent.count, arrived.count) == (count, count))
            #expect(server.rejectedRequestCount == 0)
            let arrivals = Dictionary(grouping: arrived, by: \.number)
            for request in sent {
                let twin = arrivals[request.number]?.first
                #expect(twin?.bytes == request.bytes, "\(commands[request.number - 1])")
            }
            #expect(try !directory.entries.contains("pwned"))
        }

        @Test(.enabled(if: isInstalled("bash"))) func bashWithHistoryExpansionUnderstandsTheSame() async throws {
            let base = "http://127.0.0.1:\(server.port)"
            let hostile = try await HostileRequest.make(20, base: base, directory: directory, seed: 7)
            let commands = try hostile.map { hostile in
                // A value with exclamation marks, which an interactive shell also expands between double quotes.
                try hostile.request.header("X-It's", "\t!!\t!1 !touch").cURLCommand(revealingSecrets: true)
            }
            try await run(commands)
            let first = server.recordedRequests
            for _ in first { _ = try await server.takeRequest() }
            // The shell has history expansion, like an interactive one.
            try await run(commands, with: "bash --norc -o history -o histexpand", batches: 1)
            let second = Dictionary(grouping: server.recordedRequests, by: \.number)
            #expect(first.count == 20)
            for request in first {
                #expect(second[request.number]?.first?.bytes == request.bytes, "\(commands[request.number - 1])")
            }
            #expect(try !directory.entries.contains("pwned"))
        }

        @Test func aBodyThatIsNotShownSendsNothing() async throws {
            let command = try Request<Data>.post(server.url("/")).body(Data(count: 20_000)).cURLCommand()
            #expect(command.hasSuffix(" < '<replace this by a file with the body, 20000 bytes>'"))
            try await run([command])
            #expect(server.connectionCount == 0)
        }

        @Test func aLargeFileDoesNotWaitForLeave() async throws {
            try Data(count: 3 << 20).write(to: directory.file("large"))
            let request = Request<Data>.post(server.url("/1")).body(fromFile: directory.file("large"))
            _ = try await RequestManager().send(request)
            try await run([try request.cURLCommand()])
            let (sent, arrived) = (try await server.takeRequest(), try await server.takeRequest())
            #expect(sent.value(of: "Expect") == nil)
            #expect(arrived.bytes == sent.bytes)
        }

        @Test func aFormWithFilesArrivesAsTheTransportSendsIt() async throws {
            let name = "-it's \"50%\"; a=@b\n!1"
            try Data([0, 0x27, 0xFF, 0x25]).write(to: directory.file(name))
            var form = MultipartForm()
            form.append("50% of \\ü!\r\n", name: "a;b=@c\"")
            form.append(file: directory.file(name), name: "photo", fileName: "it's %s; x=@y.png")
            form.append(file: directory.file(name), name: "again", fileName: "b")
            let request = Request<Data>.post(server.url("/1")).multipart(form)
            _ = try await RequestManager().send(request)
            let command = try request.cURLCommand()
            try await run([command])
            let (sent, arrived) = (try await server.takeRequest(), try await server.takeRequest())
            #expect(arrived.bytes == sent.bytes, "\(command)")

            try FileManager.default.removeItem(at: directory.file(name))
            try await run([command])
            #expect(server.recordedRequests.isEmpty)
        }

        @Test func aFormThatCannotBeShownGivesAdvice() throws {
            var form = MultipartForm()
            form.append(byteCount: 3, name: "a") { InputStream(data: Data("abc".utf8)) }
            let command = try Request<Data>.post("http://h/").multipart(form).cURLCommand()
            #expect(command.hasSuffix(" < '<replace this by a file with the body, which comes in 3 pieces>'"))
        }

        /// Runs commands, some of them at the same time.
        private func run(_ commands: [String], with shell: String = "sh", batches: Int = 2) async throws {
            try Data("silent\nmax-time = 30\n".utf8).write(to: directory.file(".curlrc"))
            let home = directory.url.path.shellWord
            let size = (commands.count + batches - 1) / batches
            var script = "read go\nexport CURL_HOME=\(home) HISTFILE= PS1=\ncd \(home)\n"
            for start in stride(from: 0, to: commands.count, by: size) {
                let name = "batch\(start)"
                // The commands are in files, which an interactive shell reads like input from a keyboard.
                try Data(commands[start..<min(start + size, commands.count)].joined(separator: "\n").utf8 + [0x0A])
                    .write(to: directory.file(name))
                script += "\(shell) < \(name) > /dev/null 2> /dev/null &\n"
            }
            try Data((script + "wait\n").utf8).write(to: directory.file("script"))
            let status = await offPool {
                Result {
                    let process = try SpawnedProcess(["sh", "script"], in: directory.url) { _ in }
                    process.write(Data("\n".utf8))
                    return process.waitForEnd(within: .seconds(240))
                }
            }
            #expect(try status.get() == 0)
        }
    }

    private func isInstalled(_ program: String) -> Bool {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            .contains { access("\($0)/\(program)", X_OK) == 0 }
    }

    extension RecordedRequest {
        /// The number in the target of a hostile request.
        fileprivate var number: Int { target.split(separator: "/").first.flatMap { Int($0) } ?? 0 }

        /// All bytes of the request, without the order of its fields.
        fileprivate var bytes: [String] {
            [method, target, "\(body.count): " + body.base64EncodedString()]
                + headerFields.map { "\($0.name): \($0.value)" }.sorted()
        }
    }
#endif
