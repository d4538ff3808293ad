// Pinned keys, private authorities, client certificates and the minimum TLS version over URLSession, on Apple
// platforms.
//
// Type-checked against shims of Apple's declarations (.ci/apple-types); never run.
#if canImport(Security)
    import Foundation
    import Security

    struct SessionSecurity: Sendable {
        static let honoured: Set = ["trust", "pinnedPublicKeys", "minimumTLSVersion", "clientCertificate"]
        static let standard = SessionSecurity()

        /// The trusted certificates in DER; nil for the system's.
        private let anchors: [Data]?
        private let pins: Set<String>
        private let minimumTLSVersion: ConnectionOptions.TLSVersion
        private let credential: URLCredential?
        /// `waitsForConnectivity` of the session.
        var waitsForConnectivity = false

        private init() { (anchors, pins, minimumTLSVersion, credential) = (nil, [], .tls12, nil) }

        /// Throws `.transportFailed` when a file cannot be read or used; the message names the option.
        init(_ options: ConnectionOptions) throws(RequestError) {
            anchors = try Self.anchors(of: options.trust)
            for pin in options.pinnedPublicKeys where Data(base64Encoded: pin)?.count != 32 {
                throw Self.defect("pinnedPublicKeys: \(pin.debugDescription) is not the base64 of a SHA-256")
            }
            pins = options.pinnedPublicKeys
            minimumTLSVersion = options.minimumTLSVersion
            credential = try options.clientCertificate.map { certificate throws(RequestError) in
                try Self.credential(of: certificate)
            }
        }

        func apply(to configuration: URLSessionConfiguration) {
            configuration.waitsForConnectivity = waitsForConnectivity
            configuration.tlsMinimumSupportedProtocolVersion = minimumTLSVersion == .tls12 ? .TLSv12 : .TLSv13
        }

        /// Returns nil if the system decides, and throws if the connection must fail.
        ///
        /// - Thread: any but the session's own, because the method blocks while certificates are evaluated.
        func answer(to space: URLProtectionSpace) throws(RequestError) -> URLCredential? {
            guard space.authenticationMethod == NSURLAuthenticationMethodServerTrust else { return credential }
            guard anchors != nil || !pins.isEmpty else { return nil }
            guard let trust = space.serverTrust else {
                throw RequestError(.tlsFailed, "the server has sent no certificate")
            }
            if let defect = defect(of: trust) { throw RequestError(.tlsFailed, defect) }
            return URLCredential(trust: trust)
        }

        /// Pins are checked in addition to the certificate chain.
        private func defect(of trust: SecTrust) -> String? {
            if let anchors {
                let certificates = anchors.compactMap { SecCertificateCreateWithData(nil, $0 as CFData) }
                guard SecTrustSetAnchorCertificates(trust, certificates as CFArray) == errSecSuccess,
                    SecTrustSetAnchorCertificatesOnly(trust, true) == errSecSuccess
                else { return "the trusted certificates could not be used" }
            }
            var error: CFError?
            guard SecTrustEvaluateWithError(trust, &error) else {
                return "the server's certificate is not trusted: \((error as (any Error)?)?.localizedDescription ?? "")"
            }
            guard !pins.isEmpty else { return nil }
            let chain = SecTrustCopyCertificateChain(trust) as? [SecCertificate]
            let pin = chain?.first.flatMap { CertificateKey.pin(of: SecCertificateCopyData($0) as Data) }
            return pin.map(pins.contains) == true ? nil : "the server's public key is not one of those pinned"
        }

        private static func anchors(of trust: ConnectionOptions.Trust) throws(RequestError) -> [Data]? {
            if trust == .unverified { throw defect("trust: URLSession always verifies certificates") }
            guard case .certificates(let file) = trust else { return nil }
            let text = String(decoding: try contents(of: file, for: "trust"), as: UTF8.self)
            let certificates = CertificateKey.certificates(inPEM: text) ?? []
            guard !certificates.isEmpty,
                certificates.allSatisfy({ SecCertificateCreateWithData(nil, $0 as CFData) != nil })
            else { throw defect("trust: \(file.path) must contain PEM certificates and nothing else") }
            return certificates
        }

        private static func credential(
            of certificate: ConnectionOptions.ClientCertificate
        ) throws(RequestError) -> URLCredential {
            let name = "clientCertificate"
            guard certificate.format == .archive else {
                throw defect("\(name): URLSession needs certificate and key in one PKCS #12 archive")
            }
            var options: [String: Any] = [kSecImportExportPassphrase as String: certificate.password ?? ""]
            #if os(macOS)
                // Without this option macOS stores the identity in the user's keychain. Other systems always import to
                // memory.
                options[kSecImportToMemoryOnly as String] = true
            #endif
            let archive = try contents(of: certificate.certificateFile, for: name)
            var items: CFArray?
            let status = SecPKCS12Import(archive as CFData, options as CFDictionary, &items)
            let item = (items as? [[String: Any]])?.first
            guard status == errSecSuccess, let item, let value = item[kSecImportItemIdentity as String] as CFTypeRef?,
                CFGetTypeID(value) == SecIdentityGetTypeID()
            else {
                let reason = SecCopyErrorMessageString(status, nil) as String?
                throw defect(
                    "\(name): the archive \(certificate.certificateFile.path) cannot be used: \(reason ?? "\(status)")")
            }
            // A conditional cast to a CoreFoundation type does not compile. The type was checked above.
            let identity = unsafeDowncast(value, to: SecIdentity.self)
            // The first certificate of the chain belongs to the identity, so it is left out.
            let chain = (item[kSecImportItemCertChain as String] as? [SecCertificate])?.dropFirst()
            return URLCredential(identity: identity, certificates: chain.map(Array.init), persistence: .forSession)
        }

        private static func contents(of file: URL, for name: String) throws(RequestError) -> Data {
            do { return try Data(contentsOf: file) } catch {
                throw defect("\(name): the file \(file.path) cannot be read: \(error.localizedDescription)")
            }
        }

        private static func defect(_ text: String) -> RequestError { RequestError(.transportFailed, text) }
    }

    extension URLSessionTransport {
        private static let others = Locked<[ConnectionOptions: @Sendable () -> URLSessionTransport?]>([:])

        static func shared(for options: ConnectionOptions) throws(RequestError) -> URLSessionTransport {
            let made = URLSessionTransport(try SessionSecurity(options))
            return others.withLock { others in
                if let transport = others[options]?() { return transport }
                others = others.filter { $0.value() != nil }
                others[options] = { [weak made] in made }
                return made
            }
        }
    }
#endif
