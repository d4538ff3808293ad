// URLSession's delegate, which passes callbacks to clients and translates errors.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

final class SessionDelegate: NSObject, URLSessionDataDelegate {
    fileprivate final class Entry: @unchecked Sendable {
        // @unchecked: the callbacks of a task follow each other. `refusal` is set before the call that lets the task end.
        let client: any TransportClient
        let request: PreparedRequest
        let body: LoaderBody?
        var isChallenged = false
        var refusal: RequestError?
        var hasHead = false
        var expectedBytes: Int64?
        var receivedBytes: Int64 = 0

        init(_ client: any TransportClient, _ request: PreparedRequest, _ body: LoaderBody?) {
            (self.client, self.request, self.body) = (client, request, body)
        }
    }

    /// The entries by task identifier, which is unique within a session.
    private let entries = Locked<[Int: Entry]>([:])

    #if canImport(Security)
        let security: SessionSecurity

        init(_ security: SessionSecurity) { self.security = security }
    #endif

    func register(
        _ client: any TransportClient, for task: URLSessionTask, _ request: PreparedRequest, body: LoaderBody?
    ) {
        entries.withLock { $0[task.taskIdentifier] = Entry(client, request, body) }
    }

    private func entry(of task: URLSessionTask) -> Entry? { entries.withLock { $0[task.taskIdentifier] } }

    private func end(_ task: URLSessionTask) -> Entry? {
        entries.withLock { $0.removeValue(forKey: task.taskIdentifier) }
    }

    func urlSession(
        _: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        if let response = response as? HTTPURLResponse, let entry = entry(of: dataTask) {
            let head = ResponseHead(response)
            if !head.isInformational {
                (entry.hasHead, entry.expectedBytes, entry.receivedBytes) = (true, head.expectedBytes, 0)
            }
            if let defect = entry.defect(of: head) {
                _ = end(dataTask)
                // In swift-corelibs-foundation, `cancel()` waits for the queue that runs this code.
                DispatchQueue.global().async { dataTask.cancel() }
                entry.client.didFinish(defect.with(response: head))
            } else {
                entry.client.didReceive(head)
            }
        }
        completionHandler(.allow)
    }

    func urlSession(_: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        guard let entry = entry(of: dataTask) else { return }
        entry.receivedBytes += Int64(data.count)
        guard !entry.client.didReceive(data) else { return }
        // On Linux a `URLSessionTask` cannot pause. The client then buffers the data up to its limit.
        #if canImport(Darwin)
            dataTask.suspend()
            entry.client.didPause()
        #endif
    }

    func urlSession(
        _: URLSession, task: URLSessionTask, didSendBodyData _: Int64, totalBytesSent: Int64,
        totalBytesExpectedToSend _: Int64
    ) {
        entry(of: task)?.client.didSend(totalBytes: totalBytesSent)
    }

    func urlSession(
        _: URLSession, task: URLSessionTask,
        needNewBodyStream completionHandler: @escaping @Sendable (InputStream?) -> Void
    ) {
        completionHandler(entry(of: task)?.body?.makeStream())
    }

    func urlSession(
        _: URLSession, task: URLSessionTask, willPerformHTTPRedirection _: HTTPURLResponse,
        newRequest _: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        // The redirect is delivered as the response. If URLSession followed it, credentials would go to another host,
        // and on Linux the process would crash. On Linux the call traps for a cancelled task.
        if task.state != .canceling { completionHandler(nil) }
    }

    func urlSession(
        _: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        #if canImport(FoundationNetworking)
            // Without this call, the task would never end; after it, the task still receives the 401 and its body.
            // Another queue makes the call, because it waits for URLSession's queue, which runs this code.
            entry(of: task)?.isChallenged = true
            DispatchQueue.global().async { completionHandler(.cancelAuthenticationChallenge, nil) }
        #else
            let space = challenge.protectionSpace
            switch space.authenticationMethod {
            case NSURLAuthenticationMethodServerTrust, NSURLAuthenticationMethodClientCertificate:
                // The check blocks. It must not run on this thread, which also calls back for other tasks.
                DispatchQueue.global().async { [self, entry = entry(of: task)] in
                    do throws(RequestError) {
                        let credential = try security.answer(to: space)
                        completionHandler(credential == nil ? .performDefaultHandling : .useCredential, credential)
                    } catch {
                        entry?.refusal = error
                        completionHandler(.cancelAuthenticationChallenge, nil)
                    }
                }
            default:
                completionHandler(.rejectProtectionSpace, nil)
            }
        #endif
    }

    func urlSession(_: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let entry = end(task) else { return }
        // URLSession on Linux does not report a redirect without a usable Location, and drops its body.
        if error == nil, !entry.hasHead, let response = task.response as? HTTPURLResponse {
            let head = ResponseHead(response)
            var defect: String?
            if head.statusCode == 101 {
                defect = "the server switches protocols, which was not requested"
            } else {
                entry.client.didReceive(head)
                if head.expectedBytes != 0, task.originalRequest?.httpMethod != "HEAD" {
                    defect = "the redirect has no usable Location, and URLSession has dropped its body"
                }
            }
            return entry.client.didFinish(defect.map { RequestError(.badResponse, $0) })
        }
        entry.client.didFinish(error.flatMap { entry.meaning(of: $0, task.originalRequest?.url) })
    }
}

extension SessionDelegate.Entry {
    func defect(of head: ResponseHead) -> RequestError? {
        guard head.hasBody(for: request.method) else { return nil }
        // URLSession on Linux accepts invalid lengths such as `0x5`. On Apple platforms, URLSession changes
        // `Transfer-Encoding` after it has decoded the chunks, so the field cannot be checked.
        #if canImport(FoundationNetworking)
            if let defect = head.transferCodingDefect ?? DeclaredLength(head.headerFields).defect {
                return RequestError(.badResponse, defect)
            }
        #endif
        do throws(RequestError) { _ = try ContentCodings.toUndo(head, of: request) } catch { return error }
        // On Apple platforms, URLSession leaves an unknown coding, such as `UTF-8`, as it is. On Linux it fails.
        guard request.asksForIdentity, head.hasDecodableCoding else { return nil }
        return RequestError(
            .badResponse,
            "the response has a content coding that was not requested, and URLSession always decodes it; request it with decodingFile() or Accept-Encoding, or use another transport"
        )
    }

    /// Translates URLSession's error; nil when the response is complete nevertheless.
    fileprivate func meaning(of error: any Error, _ url: URL?) -> RequestError? {
        // If the request's body cannot be read, the task is cancelled, and URLSession reports only the cancellation.
        if let failure = body?.failure { return failure }
        let code = (error as? URLError)?.code ?? .unknown
        if code == .cancelled, isChallenged, hasHead { return nil }
        if code == .cancelled, let refusal { return refusal }
        let text = error.localizedDescription
        let (kind, what) = kind(of: code, text, isHTTPS: url?.scheme == "https")
        // On Linux the text is libcurl's message, which may quote the URL. Its user name and password are removed.
        let shown = QuotedCredentials(of: url).removed(from: text)
        return RequestError(
            kind, shown.map { "\(what) (\($0))" } ?? what,
            underlying: shown == text ? error.withoutURL : URLError(code))
    }

    /// The beginnings of libcurl's messages about chunks and content codings that it cannot decode.
    private static let badBodyTexts = [
        "Illegal or missing hexadecimal", "Too long hexadecimal", "Failed writing received data",
    ]

    /// URLSession on Linux uses one code for many failures, so the beginning of libcurl's message is used in addition.
    private func kind(of code: URLError.Code, _ text: String, isHTTPS: Bool) -> (RequestError.Code, String) {
        switch code {
        case .cancelled: (.cancelled, "it was cancelled")
        case .timedOut: (.timedOut, "nothing arrived within the idle timeout")
        case .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed, .notConnectedToInternet:
            (.connectionFailed, "no connection could be made")
        case .networkConnectionLost:
            (.connectionLost, "the connection was lost")
        case .secureConnectionFailed, .serverCertificateHasBadDate, .serverCertificateUntrusted,
            .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid, .clientCertificateRejected,
            .clientCertificateRequired:
            (.tlsFailed, "the server could not be trusted")
        case .badServerResponse:
            // URLSession on Linux reports this code when the connection is closed before any response.
            hasHead
                ? (.badResponse, "the response is not HTTP")
                : (.connectionLost, "the connection was closed before a response")
        case .unknown where text.hasPrefix("Send failure") || text.hasPrefix("Recv failure"):
            (.connectionLost, "the connection was lost")
        case .unknown where text.hasPrefix("Error while processing content unencoding"):
            (.badResponse, "the body does not match its Content-Encoding")
        case .unknown where Self.badBodyTexts.contains(where: text.hasPrefix):
            (.badResponse, "the body is not valid")
        case .unknown where hasHead && receivedBytes < expectedBytes ?? .max:
            // URLSession on Linux has one code for truncated and malformed bodies.
            (
                .connectionLost,
                "the body ended after \(receivedBytes) of \(expectedBytes.map(String.init) ?? "an unknown number of") bytes"
            )
        case .unknown where isHTTPS && !hasHead:
            (.tlsFailed, "no secure connection could be made")
        default:
            (.badResponse, "the response could not be parsed")
        }
    }
}

extension ResponseHead {
    /// URLSession has joined fields of one name and lost their order; the values of `Set-Cookie` are separated again.
    init(_ response: HTTPURLResponse) {
        var fields = HeaderFields()
        for (name, value) in response.allHeaderFields {
            guard let name = name as? String, let value = value as? String else { continue }
            guard name.equalsIgnoringCase("Set-Cookie") else {
                fields.add(name, value)
                continue
            }
            // `Set-Cookie` is the only field whose values cannot be joined in one line (RFC 9110, section 5.3).
            for text in SetCookie.apart(value) { fields.add(name, String(text)) }
        }
        // The length of an encoded body differs from the length of the decoded bytes.
        let coding = fields["Content-Encoding"] ?? "identity"
        let length = coding.equalsIgnoringCase("identity") ? response.expectedContentLength : -1
        self.init(
            statusCode: response.statusCode, headerFields: fields, url: response.url,
            expectedBytes: length >= 0 ? length : nil)
    }
}

extension Error {
    /// URLSession's error without the URL, which may contain a password.
    fileprivate var withoutURL: any Error {
        guard let error = self as? URLError else { return self }
        let names = ["NSErrorFailingURLKey", "NSErrorFailingURLStringKey"]
        return URLError(error.code, userInfo: error.userInfo.filter { !names.contains($0.key) })
    }
}

/// URLSession on Apple platforms provides only the complete certificate (RFC 5280, section 4.1).
enum CertificateKey {
    /// The base64 of the SHA-256 of the DER SubjectPublicKeyInfo (RFC 7469, section 2.4); nil when it is no
    /// certificate.
    static func pin(of certificate: Data) -> String? {
        let (integer, sequence, version): (UInt8, UInt8, UInt8) = (0x02, 0x30, 0xA0)
        var all = certificate
        guard var outer = all.takeDER(sequence)?.content, var body = outer.takeDER(sequence)?.content else {
            return nil
        }
        // Version 1 certificates have no version field.
        _ = body.takeDER(version)
        // Skips the serial number, the algorithm of the signature, the issuer, the validity and the subject.
        for tag in [integer, sequence, sequence, sequence, sequence] {
            guard body.takeDER(tag) != nil else { return nil }
        }
        let key = body.takeDER(sequence)?.bytes
        return key.flatMap { try? HashFunction.sha256.digest(of: $0) }.map { Data($0).base64EncodedString() }
    }

    /// The certificates of a PEM text (RFC 7468), in DER; nil when one is truncated or not base64.
    static func certificates(inPEM text: String) -> [Data]? {
        var certificates: [Data] = []
        var lines: [Substring]?
        for line in text.split(whereSeparator: \.isNewline) {
            switch line.trimmingCharacters(in: .whitespaces) {
            case "-----BEGIN CERTIFICATE-----": lines = []
            case "-----END CERTIFICATE-----":
                guard let block = lines, let data = Data(base64Encoded: block.joined()), !data.isEmpty else {
                    return nil
                }
                certificates.append(data)
                lines = nil
            case let content: lines?.append(content[...])
            }
        }
        return lines == nil ? certificates : nil
    }
}

extension Data {
    // Removes the first DER value (X.690, section 8.1), and returns its complete bytes and its content; nil if its tag
    // differs, or if its length is beyond the data, indefinite, or has more than four bytes.
    fileprivate mutating func takeDER(_ tag: UInt8) -> (bytes: Data, content: Data)? {
        guard first == tag, let first = dropFirst().first else { return nil }
        var (headerBytes, length) = (2, Int(first))
        if first & 0x80 != 0 {
            let count = Int(first & 0x7F)
            let bytes = dropFirst(2).prefix(count)
            guard (1...4).contains(count), bytes.count == count else { return nil }
            (headerBytes, length) = (2 + count, bytes.reduce(0) { $0 << 8 | Int($1) })
        }
        guard length <= count - headerBytes else { return nil }
        let bytes = prefix(headerBytes + length)
        self = dropFirst(headerBytes + length)
        return (bytes, bytes.dropFirst(headerBytes))
    }
}
