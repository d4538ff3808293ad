// Tests redirects to invalid targets, in circles, with ambiguous locations, and those that could leak secrets.
import Convoy
import Foundation
import Testing

extension FaultsWithRepeats {
    @Suite(.timeLimit(.minutes(5))) struct RedirectFaultTests {
        /// Only the limit ends a circle, because a server may respond differently the next time.
        @Test(arguments: ConformingTransport.all, [1, 2, 3, 100])
        func twentyHopsAreFollowedAndTheNextIsAnErrorThatListsAll(ground: ConformingTransport, size: Int) async throws {
            let paths = (0...20).map { "/\($0 % size)" }
            for count in [20, 21] {
                let server = try ScriptedServer(ground) { _, index in
                    index < count ? .redirect(to: "/\((index + 1) % size)") : .answer(200, body: "there")
                }
                let result = try await server.result(of: Request<String>.get(server.url("/0")))
                #expect(server.seen.map(\.target) == paths)
                switch result {
                case .success(let response):
                    #expect(count == 20 && response.value == "there")
                    #expect(response.redirects.map(\.path) == Array(paths.dropFirst()))
                case .failure(let error):
                    #expect(count == 21 && error.code == .tooManyRedirects && !error.isRetryable)
                    #expect(error.response?.statusCode == 302)
                    #expect(error.attempts.map(\.url.path) == paths)
                    let hops = paths.dropFirst().map { AttemptRecord.Next.redirect(to: server.wire.url($0)) }
                    #expect(error.attempts.dropLast().map(\.next) == Array(hops))
                    #expect(error.description.isOneLine)
                }
            }
        }

        /// Retries do not count as redirects, and redirects do not count as retries.
        @Test(arguments: ConformingTransport.all)
        func flappingServerOnTheWayIsPassed(ground: ConformingTransport) async throws {
            let acts: [ServerAct] = [
                .answer(503), .redirect(307, to: "/b"), .answer(503), .redirect(301, to: "/c"), .answer(503),
                .answer(200, body: "there"),
            ]
            let server = try ScriptedServer(ground, acts)
            let response = try await server.response(to: Request<String>.get(server.url("/a")))
            #expect(response.value == "there")
            #expect(server.seen.map(\.target) == ["/a", "/a", "/b", "/b", "/c", "/c"])
            #expect(response.redirects.map(\.path) == ["/b", "/c"])
        }

        @Test(
            arguments: ConformingTransport.all,
            [
                "file:///etc/passwd", "ftp://127.0.0.1/x", "javascript:alert(1)", "data:text/html,hello", "gopher://h/",
                "mailto:a@b", "FILE:/etc/passwd", "ws://127.0.0.1/", "dict://127.0.0.1:1/x",
            ])
        func aRedirectToAnotherSchemeIsRefused(ground: ConformingTransport, location: String) async throws {
            for statusCode in [302, 307] {
                let server = try ScriptedServer(ground, [.redirect(statusCode, to: location)])
                let error = try await server.error(of: Request<Data>.get(server.url()).acceptableStatusCodes(.any))
                error.expect(.redirectRefused, status: statusCode)
                #expect(error.response?.headerFields["Location"] == location)
                #expect(server.seen.count == 1)
            }
        }

        /// The client resolves each location against `/b/c/d;p?q`, as in RFC 3986, section 5.4.
        @Test(
            arguments: ConformingTransport.all,
            [
                ("g", "/b/c/g"), ("./g/", "/b/c/g/"), ("/g", "/g"), ("?y", "/b/c/d;p?y"), ("g?y/../x", "/b/c/g?y/../x"),
                ("../g", "/b/g"), ("../../../g", "/g"), ("..", "/b/"), ("//{authority}/g", "/g"),
                ("http://{authority}/a/../g", "/g"), ("HTTP://{authority}/g", "/g"), ("/ü", "/%C3%BC"),
                ("/%C3%BC", "/%C3%BC"), ("/a b", "/a%20b"), ("/a%20b%zz", "/a%20b%25zz"), ("/g#s", "/g"),
                ("  /g\t", "/g"),
            ])
        func locationIsResolved(ground: ConformingTransport, hop: (location: String, target: String)) async throws {
            let authority = Locked("")
            let server = try ScriptedServer(ground) { request, _ in
                guard request.target == "/b/c/d;p?q" else { return .answer(200, body: "there") }
                return .redirect(to: hop.location.replacing("{authority}", with: authority.withLock { $0 }))
            }
            authority.withLock { $0 = server.authority }
            let response = try await server.response(to: Request<String>.get(server.url("/b/c/d;p?q")))
            #expect(response.value == "there")
            #expect(server.seen.map(\.target) == ["/b/c/d;p?q", hop.target])
        }

        /// A redirect without a usable target is the response, including its body.
        ///
        /// The same applies to a status code from 300 to 399 that is not followed.
        @Test(
            arguments: ConformingTransport.all,
            [
                (302, nil), (301, ""), (307, "http://"), (308, "http:///g"), (302, "http://[::1"),
                (302, "http://h:99999/"),
                (302, "http://ex ample/"), (302, "/" + String(repeating: "x", count: 60_000)), (300, "/b"), (304, "/b"),
                (305, "/b"), (306, "/b"), (399, "/b"),
            ] as [(Int, String?)])
        func redirectThatLeadsNowhereIsTheAnswer(
            ground: ConformingTransport, answer: (statusCode: Int, location: String?)
        ) async throws {
            let fields = answer.location.map { [("Location", $0)] } ?? []
            let body = answer.statusCode == 304 ? "" : "moved"
            let server = try ScriptedServer(ground, [.answer(answer.statusCode, fields, body: body)])
            let result = try await server.result(of: Request<String>.get(server.url()).acceptableStatusCodes(.any))
            let error = try await server.error(of: Request<Data>.get(server.url()))
            #expect(error.response?.statusCode == answer.statusCode)
            #expect(server.seen.count == 2)
            if ground.isURLSession, error.code == .badResponse {
                // URLSession drops the body of some redirects. The error reports the dropped body.
                #expect(result.code == .badResponse)
                return #expect(error.message.contains("dropped its body"))
            }
            let response = try result.get()
            #expect(response.statusCode == answer.statusCode)
            #expect(response.value == body)
            #expect(response.redirects.isEmpty)
            #expect(error.code == .unacceptableStatus)
            #expect(error.body ?? Data() == Data(body.utf8))
        }

        @Test(arguments: ConformingTransport.all, [nil, "", "http://[::1"])
        func redirectThatLeadsNowhereWithoutABodyIsTheAnswer(ground: ConformingTransport, location: String?)
            async throws
        {
            for statusCode in [301, 302, 303, 307, 308] {
                let server = try ScriptedServer(
                    ground, [.answer(statusCode, location.map { [("Location", $0)] } ?? [])])
                let request = Request<Data>.get(server.url())
                let response = try await server.response(to: request.acceptableStatusCodes(.any))
                #expect(response.statusCode == statusCode)
                #expect(response.value.isEmpty)
                #expect(try await server.error(of: request).code == .unacceptableStatus)
                #expect(server.seen.count == 2)
            }
        }

        /// A redirect with two different locations is not followed.
        ///
        /// The libcurl transport reports an error. URLSession reports one with libcurl 8.17 or newer. With an older
        /// libcurl, URLSession joins the locations, and the 302 is the response.
        @Test(arguments: ConformingTransport.all)
        func severalLocationsThatDifferAreNotFollowed(ground: ConformingTransport) async throws {
            let server = try ScriptedServer(ground, [.answer(302, [("Location", "/b"), ("Location", "/c")])])
            let result = try await server.result(of: Request<Data>.get(server.url()).acceptableStatusCodes(.any))
            if !ground.isURLSession || result.code != nil {
                #expect(result.code == .badResponse, "\(result)")
            } else {
                #expect(try result.get().statusCode == 302)
            }
            #expect(server.seen.count == 1)
        }

        /// RFC 9110, section 15.4: the method and the body after a redirect, from memory and from a file.
        @Test(
            arguments: ConformingTransport.all,
            [
                (301, .post, .get), (302, .post, .get), (303, .post, .get), (307, .post, .post), (308, .post, .post),
                (301, .put, .put), (302, .put, .put), (303, .put, .get), (307, .put, .put), (308, .put, .put),
                (303, .delete, .get), (302, .delete, .delete), (308, .patch, .patch), (303, .head, .head),
            ] as [(Int, HTTPMethod, HTTPMethod)])
        func methodAndBodyFollowTheStatus(
            ground: ConformingTransport, hop: (statusCode: Int, method: HTTPMethod, expected: HTTPMethod)
        ) async throws {
            let body = Reply.pattern(range: 0..<300_000)
            let directory = try TemporaryDirectory()
            let file = directory.file("body")
            try body.write(to: file)
            for isFile in [false, true] {
                let acts: [ServerAct] = [
                    .redirect(hop.statusCode, to: "/b"), .redirect(hop.statusCode, to: "/c"), .answer(200),
                ]
                let server = try ScriptedServer(ground, acts)
                var request = Request<Data>(method: hop.method, url: server.url())
                let hasBody = [.post, .put, .patch].contains(hop.method)
                if hasBody { request = isFile ? request.body(fromFile: file) : request.body(body) }
                let response = try await server.response(to: request)
                let keepsBody = hasBody && hop.method == hop.expected
                #expect(server.seen.map(\.method) == [hop.method, hop.expected, hop.expected].map(\.rawValue))
                #expect(server.seen.map(\.target) == ["/a", "/b", "/c"])
                #expect(server.seen.first?.body == (hasBody ? body : Data()))
                for seen in server.seen.dropFirst() {
                    #expect(seen.body == (keepsBody ? body : Data()))
                    #expect((seen.fields["Content-Type"] != nil) == keepsBody)
                    #expect(keepsBody || (seen.fields["Content-Length"] ?? "0") == "0")
                }
                #expect(response.transfer.upload.completedBytes == (keepsBody ? 300_000 : 0))
            }
        }
    }

    @Suite(.timeLimit(.minutes(5))) struct RedirectSecretFaultTests {
        /// The part of the origin in which the target of a redirect differs.
        enum Elsewhere: CaseIterable {
            case port, host, both
        }

        /// A server that redirects to another origin, and the server of that origin.
        ///
        /// If `back` is set, the second server redirects to the first again.
        private func servers(
            _ ground: ConformingTransport, to place: Elsewhere, statusCode: Int, back: Bool = false,
            configure: (inout RequestManager.Configuration) throws -> Void = { _ in }
        ) throws -> (first: ScriptedServer, second: ScriptedServer) {
            let (start, end) = (Locked(""), Locked(""))
            let second = try ScriptedServer(ground) { _, _ in
                back ? .redirect(307, to: start.withLock { $0 }) : .answer(200, body: "there")
            }
            let first = try ScriptedServer(ground, configure: configure) { request, _ in
                switch request.target {
                case "/start": .redirect(statusCode, to: "/same")
                case "/same": .redirect(statusCode, to: end.withLock { $0 })
                default: .answer(200, body: "back")
                }
            }
            let target = (place == .host ? first : second).url("/left")
            let location = place == .port ? target : target.replacing("127.0.0.1", with: "localhost")
            // The user name and password of a URL are only sent to that URL's origin.
            end.withLock { $0 = location.replacing("http://", with: "http://user:hunter2@") }
            start.withLock { $0 = first.url("/back") }
            return (first, second)
        }

        private func secretRequest(_ server: ScriptedServer, _ method: HTTPMethod = .get) -> Request<String> {
            // The libcurl transport rejects every Proxy-Authorization field; see RedirectSecretsTests.
            Request<String>(method: method, url: server.url("/start")).bearer("hunter2")
                .header("Cookie", "a=hunter2").secretHeader("X-API-Key", "hunter2").header("X-Plain", "1")
        }

        /// Fields that are not secret are sent along.
        @Test(arguments: ConformingTransport.all, Elsewhere.allCases)
        func secretsStayWithTheirOrigin(ground: ConformingTransport, place: Elsewhere) async throws {
            for statusCode in [301, 302, 303, 307, 308] {
                let (first, second) = try servers(ground, to: place, statusCode: statusCode)
                let response = try await first.response(to: secretRequest(first))
                #expect(response.redirects.count == 2)
                let all = first.seen + second.seen
                #expect(all.map(\.target) == ["/start", "/same", "/left"])
                for (index, seen) in all.enumerated() {
                    let isAtHome = index < 2
                    #expect(seen.fields["Authorization"] == (isAtHome ? "Bearer hunter2" : nil))
                    #expect((seen.fields["Cookie"] == "a=hunter2") == isAtHome)
                    #expect((seen.fields["X-API-Key"] == "hunter2") == isAtHome)
                    #expect(seen.fields["X-Plain"] == "1")
                    #expect(isAtHome || !seen.fields.contains { $0.value.contains("hunter2") })
                }
            }
        }

        /// A 307 sends the body to the other origin, but not the credentials.
        ///
        /// The credentials are not sent after the redirect back, because the other origin chose that target.
        @Test(arguments: ConformingTransport.all)
        func secretsDoNotComeBack(ground: ConformingTransport) async throws {
            let (first, second) = try servers(ground, to: .port, statusCode: 307, back: true)
            let body = Reply.pattern(range: 0..<100_000)
            let response = try await first.response(to: secretRequest(first, .post).body(body))
            #expect(response.value == "back")
            #expect((first.seen + second.seen).map(\.target) == ["/start", "/same", "/back", "/left"])
            #expect((first.seen + second.seen).map(\.body) == [body, body, body, body])
            #expect(first.seen.map { $0.fields.contains("Authorization") } == [true, true, false])
            #expect(second.seen.map { $0.fields.contains("Authorization") } == [false])
        }

        @Test(arguments: ConformingTransport.all, Elsewhere.allCases)
        func credentialsOfAnAuthenticatorStay(ground: ConformingTransport, place: Elsewhere) async throws {
            let adding = Interceptor(adapting: { request, _ in
                var request = request
                request.headerFields.add("X-Key", "hunter2", isSecret: true)
                return request
            })
            let (first, second) = try servers(ground, to: place, statusCode: 302) {
                $0.interceptors = [BearerAuthenticator(token: "hunter2") { _ in "hunter3" }, adding]
            }
            let response = try await first.response(to: Request<String>.get(first.url("/start")))
            #expect(response.redirects.count == 2)
            let all = first.seen + second.seen
            #expect(all.map { $0.fields.contains("Authorization") } == [true, true, false])
            #expect(all.map { $0.fields.contains("X-Key") } == [true, true, false])
        }

        @Test(arguments: ConformingTransport.all)
        func errorsOfRedirectsShowNoSecret(ground: ConformingTransport) async throws {
            let server = try ScriptedServer(ground) { _, index in
                .redirect(to: "http://user:hunter2@nobody.invalid/?\(index)")
            }
            let error = try await server.error(of: secretRequest(server))
            #expect(error.code == .connectionFailed, "\(error)")
            let told = "\(error) \(error.attempts) \(String(reflecting: error.attempts.map(\.description)))"
            #expect(!told.contains("hunter2"), "\(told)")
        }
    }
}
