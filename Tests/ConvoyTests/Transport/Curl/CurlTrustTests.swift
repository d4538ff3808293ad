import Foundation
import Testing

@testable import Convoy

#if canImport(CLibcurl)
    /// Tests TLS over ``CurlTransport``: only a server that is trusted receives a request.
    @Suite struct CurlTrustTests {
        enum BadServer: CaseIterable, Sendable {
            case unknownAuthority
            case expired
            case otherName
            case selfSigned
            case oldProtocol

            func start() async throws -> TLSServer {
                let certificates = try Certificates.shared
                switch self {
                case .unknownAuthority: return try await TLSServer(certificates.server)
                case .expired: return try await TLSServer(certificates.expired)
                case .otherName: return try await TLSServer(certificates.otherName)
                case .selfSigned: return try await TLSServer(certificates.selfSigned)
                case .oldProtocol:
                    return try await TLSServer(certificates.server, ["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"])
                }
            }
        }

        @Test(arguments: ["127.0.0.1", "localhost"])
        func certificateOfAPrivateAuthorityIsGood(_ host: String) async throws {
            let server = try await TLSServer(Certificates.shared.server, ["-alpn", "http/1.1"])
            let request = Request<Data>.get(server.url("/private", host: host))
            let response = try await Sending(request, over: CurlTransport.trusting()).response()
            #expect(response.value == Data("hello".utf8))
            #expect(server.heads.map { $0.hasPrefix("GET /private HTTP/1.1\r\n") } == [true])
            let metrics = try #require(response.metrics)
            #expect(metrics.secureConnect > .zero)
            #expect(["1.2", "1.3"].contains(metrics.tlsVersion))
            #expect(metrics.tlsCipher.contains("AES") || metrics.tlsCipher.contains("CHACHA20"))
            #expect(metrics.httpVersion == "1.1")
            #expect(metrics.remotePort == server.port)
        }

        /// A caller may trust a self-signed certificate, for example that of a local server.
        @Test func selfSignedCertificateIsGoodWhereItIsTrusted() async throws {
            let identity = try Certificates.shared.selfSigned
            let server = try await TLSServer(identity)
            let transport = try CurlTransport.trusting { $0.trust = .certificates(in: identity.certificate) }
            let response = try await Sending(Request<Data>.get(server.url()), over: transport).response()
            #expect(response.value == Data("hello".utf8))
        }

        @Test(arguments: [BadServer.unknownAuthority, .expired, .otherName, .selfSigned])
        func withoutVerificationEveryCertificateIsGood(_ server: BadServer) async throws {
            let server = try await server.start()
            let transport = try CurlTransport.trusting { $0.trust = .unverified }
            let response = try await Sending(.get(server.url()), over: transport).response()
            #expect(response.value == Data("hello".utf8))
        }

        /// A reused handle must not report the system's error of an earlier connection.
        @Test func refusalAfterALostConnectionIsStillTLSFailed() async throws {
            let (lossy, bad) = (try TestServer(), try await BadServer.selfSigned.start())
            let old = try await BadServer.oldProtocol.start()
            lossy.respond { _ in Reply.status(200, body: "hello").resetting(afterBytes: 0) }
            let transport = try CurlTransport.trusting()
            for url in [bad.url(), old.url()] {
                let error = try await Sending(Request<Data>.get(lossy.url()), over: transport).error()
                #expect(error.code == .connectionLost, "\(error)")
                expectRefusal(try await Sending(Request<Data>.get(url), over: transport).error())
            }
        }

        /// Two transports reach a server by the same name, and only the first one trusts it.
        @Test func trustIsNotSharedBetweenTransports() async throws {
            let server = try await TLSServer(Certificates.shared.server)
            let request = Request<Data>.get(server.url())
            let trusting = try CurlTransport.trusting()
            let doubting = try CurlTransport.trusting { $0.trust = .system }
            for _ in 1...3 {
                _ = try await Sending(request, over: trusting).response()
                expectRefusal(try await Sending(request, over: doubting).error())
            }
            #expect(server.heads.count == 3)
        }

        @Test(arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "220 mail.example.invalid ESMTP\r\n", "\0\0\0\0\0\0\0\0"])
        func peerWithoutTLSIsTLSFailed(_ bytes: String) async throws {
            let server = try LoopbackListener { connection in
                _ = connection.read()
                connection.write(bytes)
                connection.readToEnd()
            }
            let request = Request<Data>.get("https://127.0.0.1:\(server.port)/")
            expectRefusal(try await Sending(request, over: CurlTransport.trusting()).error())
            #expect(server.connectionCount == 1)
        }

        /// The server reads, and the client waits for the response to its hello.
        @Test func aServerThatIgnoresTheHelloTimesOut() async throws {
            let server = try LoopbackListener { $0.readToEnd() }
            let transport = try CurlTransport.trusting { $0.connectTimeout = .milliseconds(300) }
            let request = Request<Data>.get("https://127.0.0.1:\(server.port)/")
            let error = try await Sending(request, over: transport).error()
            #expect([.connectionFailed, .timedOut].contains(error.code), "\(error)")
            #expect(error.response == nil)
        }

        @Test func aRightPinIsGood() async throws {
            let all = try Certificates.shared
            for others in [[], [all.client.publicKeyPin, all.expired.publicKeyPin]] {
                let result = try await result(pins: Set(others + [all.server.publicKeyPin]))
                #expect(try result.get().value == Data("hello".utf8))
            }
        }

        /// The pins must match the server's own key, not that of the authority.
        @Test(arguments: [1, 2])
        func wrongPinIsTLSFailed(_ count: Int) async throws {
            let all = try Certificates.shared
            let pins = Set([all.authority.publicKeyPin, all.client.publicKeyPin].prefix(count))
            let error = try #require(await result(pins: pins).failure as? RequestError)
            expectRefusal(error)
            #expect(error.message.lowercased().contains("pin"), "\(error)")
        }

        /// A pin does not replace the check of the authority.
        @Test func rightPinOfAnUnknownAuthorityIsTLSFailed() async throws {
            let pins: Set = [try Certificates.shared.server.publicKeyPin]
            expectRefusal(try #require(await result(pins: pins, trust: .system).failure as? RequestError))
        }

        @Test(arguments: [
            "", "no base64!", "AAAA", "sha256//FBXih77Ywl+eNHUF9O2TA+fgT8nKAD4ZSM6NiH4T90c=",
            "FBXih77Ywl+eNHUF9O2TA+fgT8nKAD4ZSM6NiH4T90c=;sha256//FBXih77Ywl+eNHUF9O2TA+fgT8nKAD4ZSM6NiH4T90c=",
        ])
        func malformedPinIsRefused(_ pin: String) throws {
            let good = try Certificates.shared.server.publicKeyPin
            try expectRefused(.trustingTestAuthority { $0.pinnedPublicKeys = [pin, good] }, naming: "pin")
        }

        private func result(
            pins: Set<String>, trust: ConnectionOptions.Trust? = nil
        ) async throws -> RequestOperation<Data>.Result {
            let server = try await TLSServer(Certificates.shared.server)
            let transport = try CurlTransport.trusting {
                $0.pinnedPublicKeys = pins
                if let trust { $0.trust = trust }
            }
            let result = try await Sending(Request<Data>.get(server.url()), over: transport).result()
            #expect(server.heads.count == (result.code == nil ? 1 : 0))
            return result
        }

        @Test(arguments: [("-tls1_2", true), ("-tls1_3", false)])
        func oldestVersionIsKeptTo(_ version: String, isTooOld: Bool) async throws {
            let server = try await TLSServer(Certificates.shared.server, [version])
            let (request, transport) = (Request<Data>.get(server.url()), try CurlTransport.trusting())
            #expect(try await Sending(request, over: transport).response().value == Data("hello".utf8))
            let strict = try CurlTransport.trusting { $0.minimumTLSVersion = .tls13 }
            let result = try await Sending(request, over: strict).result()
            if isTooOld {
                expectRefusal(try #require(result.failure as? RequestError))
            } else {
                #expect(try result.get().value == Data("hello".utf8))
            }
            #expect(server.heads.count == (isTooOld ? 1 : 2))
        }

        // The file is rejected at once or with the first request. The transport never uses the authorities of the
        // system instead.
        @Test func aFileWithoutCertificatesTrustsNoServer() async throws {
            let all = try Certificates.shared
            let server = try await TLSServer(all.server)
            let options = try ConnectionOptions.trustingTestAuthority {
                $0.trust = .certificates(in: all.server.privateKey)
            }
            let transport = Result { () throws(RequestError) in try CurlTransport(options) }
            let error: RequestError
            switch transport {
            case .failure(let refusal): error = refusal
            case .success(let transport):
                error = try await Sending(Request<Data>.get(server.url()), over: transport).error()
            }
            #expect([.tlsFailed, .transportFailed, .invalidRequest].contains(error.code), "\(error)")
            #expect(server.heads == [])
        }

        // A missing password is also an error. A prompt at the terminal would block the thread of all requests.
        @Test(arguments: [true, false], [Certificates.password, "other", nil])
        func clientCertificateIsOpenedWithItsPassword(_ isArchive: Bool, _ password: String?) async throws {
            let all = try Certificates.shared
            let options = try ConnectionOptions.trustingTestAuthority {
                $0.clientCertificate =
                    isArchive
                    ? .init(archive: all.clientArchive, password: password)
                    : .init(
                        certificateFile: all.client.certificate, privateKeyFile: all.lockedClientKey,
                        password: password)
            }
            if isArchive, CurlLibrary.usesGnuTLS { return try expectRefused(options, naming: "archive") }
            let server = try await serverForClients()
            let result = try await Sending(Request<Data>.get(server.url()), over: CurlTransport(options)).result()
            if password == Certificates.password {
                #expect(try result.get().value == Data("hello".utf8))
                #expect(server.output.contains("convoy-client"))
            } else {
                let error = try #require(result.failure as? RequestError)
                #expect(error.code == .tlsFailed, "\(error)")
                #expect(!error.description.contains(password ?? Certificates.password))
                #expect(server.heads == [])
            }
        }

        /// With TLS 1.3 a client learns that its certificate is required only after it has completed its part of the
        /// handshake.
        @Test(arguments: ["-tls1_2", "-tls1_3"])
        func missingClientCertificateIsAnError(_ version: String) async throws {
            let server = try await serverForClients([version])
            let error = try await Sending(Request<Data>.get(server.url()), over: CurlTransport.trusting()).error()
            error.expect(.tlsFailed, status: 0)
            #expect(server.heads == [])
        }

        private func serverForClients(_ more: [String] = []) async throws -> TLSServer {
            let all = try Certificates.shared
            let authority = all.authority.certificate.path
            return try await TLSServer(
                all.server, ["-Verify", "1", "-verify_return_error", "-CAfile", authority] + more)
        }

        private func expectRefusal(_ error: RequestError, sourceLocation: SourceLocation = #_sourceLocation) {
            error.expect(.tlsFailed, status: 0, sourceLocation: sourceLocation)
            #expect(!error.description.contains("secret"), sourceLocation: sourceLocation)
        }

        private func expectRefused(_ options: ConnectionOptions, naming name: String) throws {
            let error = try #require(throws: RequestError.self) { _ = try CurlTransport(options) }
            #expect([.transportFailed, .invalidRequest].contains(error.code), "\(error)")
            #expect(error.message.lowercased().contains(name), "\(error)")
            #expect(error.description.isOneLine)
            #expect(!error.description.contains("secret"))
        }
    }

    extension ConnectionOptions {
        /// Options that trust only the tests' own authority, and ignore the environment.
        static func trustingTestAuthority(
            _ change: (inout ConnectionOptions) throws -> Void = { _ in }
        ) throws -> ConnectionOptions {
            var options = ConnectionOptions()
            options.trust = .certificates(in: try Certificates.shared.authority.certificate)
            options.proxy = .direct
            try change(&options)
            return options
        }
    }

    extension CurlTransport {
        static func trusting(_ change: (inout ConnectionOptions) throws -> Void = { _ in }) throws -> CurlTransport {
            try CurlTransport(.trustingTestAuthority(change))
        }
    }

    /// Tests that ``TLSSession`` reads the wording of each version, and nothing else.
    @Suite struct HandshakeTests {
        @Test(arguments: [
            // The first line is that of libcurl up to 7.87 with OpenSSL, with a line end. The second line is that of
            // libcurl from 8.1 on with OpenSSL, and the third line is that of libcurl with GnuTLS.
            ("SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384\n", "1.3", "TLS_AES_256_GCM_SHA384"),
            (
                "SSL connection using TLSv1.2 / ECDHE-RSA-AES128-GCM-SHA256 / X25519 / RSASSA-PSS", "1.2",
                "ECDHE-RSA-AES128-GCM-SHA256"
            ),
            ("SSL connection using TLS1.3 / ECDHE_RSA_AES_256_GCM_SHA384", "1.3", "ECDHE_RSA_AES_256_GCM_SHA384"),
            ("SSL connection using TLSv1", "1", ""),
        ])
        func versionAndCipher(_ text: String, version: String, cipher: String) {
            #expect(session(text)?.version == version)
            #expect(session(text)?.cipher == cipher)
        }

        @Test(arguments: [
            "", "S", "SSL connection using ", "SSL connection using TLS", "SSL connection using TLSv / A",
            "SSL connection using TLSvX / A", "SSL connection using (NONE) / (NONE)", "SSL certificate verify ok.",
            "SSL connection using TLSv1.3 / (NONE)", " SSL connection using TLSv1.3 / A", "Server certificate:",
        ])
        func otherTextsAreIgnored(_ text: String) { #expect(session(text) == nil) }

        private func session(_ text: String) -> TLSSession? { Array(text.utf8).withUnsafeBytes { TLSSession($0) } }
    }
#endif
