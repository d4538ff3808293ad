import Convoy
import Foundation

struct HTTPArchive: Decodable {
    struct Log: Decodable {
        let entries: [Entry]
    }

    struct Entry: Decodable {
        let request: Request
        let response: Response
    }

    struct Request: Decodable {
        let method: String
        let url: String
    }

    struct Response: Decodable {
        let status: Int
        let headers: [Header]
        let content: Content
        let failure: String?

        enum CodingKeys: String, CodingKey {
            case status
            case headers
            case content
            case failure = "_error"
        }
    }

    struct Header: Decodable {
        let name: String
        let value: String
    }

    struct Content: Decodable {
        let size: Int64?
        let text: String?
        let encoding: String?

        var body: Data? {
            guard let text else { return Data() }
            guard encoding?.lowercased() == "base64" else { return Data(text.utf8) }
            return Data(base64Encoded: String(text.filter { !$0.isWhitespace }))
        }
    }

    let log: Log
}

extension HTTPArchive.Entry {
    /// A replay omits these fields, because the recorded body is decoded.
    private static let fieldsOfTheWire: Set = [
        "connection", "content-digest", "content-encoding", "content-length", "content-md5", "digest", "keep-alive",
        "repr-digest", "trailer", "transfer-encoding",
    ]

    var reply: StubReply {
        // Recorders other than `HARRecorder` mark an entry without a response only by a status such as 0.
        if let failure = response.failure ?? (response.status < 100 ? "" : nil) {
            // In `_error`, browsers record texts that are not codes of Convoy, such as `net::ERR_CONNECTION_REFUSED`.
            let isCode = !failure.isEmpty && failure.allSatisfy { $0.isASCII && $0.isLetter }
            let words = failure.isEmpty ? "" : ": \(failure)"
            let code: RequestError.Code = isCode ? .init(rawValue: failure) : .connectionLost
            return .failure(RequestError(code, "the archive has this failure\(words)"))
        }
        // If the recorder has omitted the body of a success, a replay with an empty body would be wrong. An error
        // status or a redirect may have an empty body.
        if (200..<300).contains(response.status), response.content.text == nil, let size = response.content.size,
            size > 0
        {
            return .failure(
                RequestError(
                    .transportFailed,
                    "the archive has left out the \(size) bytes of this answer; record with a larger bodyLimitBytes, or add a route"
                ))
        }
        guard let body = response.content.body else {
            return .failure(
                RequestError(.transportFailed, "the body of this answer is not the base64 that its entry says"))
        }
        var fields = HeaderFields()
        for field in response.headers {
            // Browsers also record the pseudo-header fields of HTTP/2, whose names begin with a colon.
            guard !field.name.hasPrefix(":"), field.value != "<redacted>",
                !Self.fieldsOfTheWire.contains(field.name.lowercased())
            else { continue }
            fields.add(field.name, field.value)
        }
        return .status(response.status, headerFields: fields, body: body)
    }
}
