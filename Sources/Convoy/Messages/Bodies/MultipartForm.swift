// A multipart form (RFC 7578). Names are escaped as in browsers (WHATWG HTML, section 4.10.21.8).
import Foundation

/// A `multipart/form-data` body of fields and files, in order; files are read while they are sent.
///
/// ```swift
/// var form = MultipartForm()
/// form.append("Ann", name: "user")
/// form.append(file: photo, name: "photo")
/// let request = Request<Data>.post(url).multipart(form)
/// let response = try await manager.send(request)
/// ```
///
/// Names and file names are sent in UTF-8, with `"` as `%22`. CR, LF or NUL in a name makes the request invalid, and so
/// does a backslash at the end of a name or before another one: browsers send them unchanged, and servers differ.
public struct MultipartForm: Sendable, Hashable {
    private enum Content: Hashable {
        case data(Data)
        case file(URL)
        case stream(BodyStream)
    }

    private struct Part: Hashable {
        let name: String
        let fileName: String?
        let contentType: String?
        let content: Content
    }

    /// The separator of the parts; by default `convoy-` and a random UUID.
    public let boundary: String
    private var parts: [Part] = []

    /// Makes an empty form.
    ///
    /// - Parameter boundary: 1 to 70 characters that RFC 2046 (section 5.1.1) allows; any other text makes the request
    ///   invalid. No part may contain the boundary.
    public init(boundary: String = "convoy-" + UUID().uuidString) { self.boundary = boundary }

    /// The number of parts.
    public var count: Int { parts.count }

    /// Adds a text field.
    public mutating func append(_ text: String, name: String) {
        parts.append(Part(name: name, fileName: nil, contentType: nil, content: .data(Data(text.utf8))))
    }

    /// Adds bytes in memory, with a file name as a file, whose content type follows from that name by default.
    public mutating func append(_ data: Data, name: String, fileName: String? = nil, contentType: String? = nil) {
        add(.data(data), name: name, fileName: fileName, contentType: contentType)
    }

    /// Adds a file, which must exist when the request is sent, and is read meanwhile.
    ///
    /// By default it has its own name, and the content type of its name or `application/octet-stream`.
    public mutating func append(file: URL, name: String, fileName: String? = nil, contentType: String? = nil) {
        add(.file(file), name: name, fileName: fileName ?? file.lastPathComponent, contentType: contentType)
    }

    /// Adds the bytes of a stream, as in ``Request/body(byteCount:canRepeat:contentType:stream:)``; fewer or more bytes
    /// than declared fail the request with `.bodyUnreadable`.
    public mutating func append(
        byteCount: Int64, name: String, fileName: String? = nil, contentType: String? = nil, canRepeat: Bool = true,
        stream: @escaping @Sendable () -> InputStream?
    ) {
        add(
            .stream(.stream(byteCount: byteCount, canRepeat: canRepeat, stream)), name: name, fileName: fileName,
            contentType: contentType)
    }

    private mutating func add(_ content: Content, name: String, fileName: String?, contentType: String?) {
        let contentType = contentType ?? fileName.map { ContentType.of(fileName: $0) }
        parts.append(Part(name: name, fileName: fileName, contentType: contentType, content: content))
    }

    var contentType: String { "multipart/form-data; boundary=\(boundary.isHTTPToken ? boundary : "\"\(boundary)\"")" }

    var hasFiles: Bool { parts.contains { if case .file = $0.content { true } else { false } } }

    var defect: String? {
        guard (1...70).contains(boundary.utf8.count), !boundary.hasSuffix(" "),
            boundary.unicodeScalars.allSatisfy(Self.boundaryCharacters.contains)
        else { return "the boundary \(boundary.debugDescription) is invalid by RFC 2046" }
        for part in parts {
            if case .stream(let stream) = part.content, stream.byteCount ?? 0 < 0 {
                return "the length of a part of the form is negative: \(part.name.debugDescription.prefix(80))"
            }
            for text in [part.name, part.fileName, part.contentType].compactMap({ $0 })
            where text.unicodeScalars.contains(where: { $0 == "\r" || $0 == "\n" || $0 == "\0" }) {
                return "a part of the form has CR, LF or NUL in its name or type: \(text.debugDescription.prefix(80))"
            }
            for name in [part.name, part.fileName].compactMap({ $0 }) where name.hasAmbiguousBackslash {
                return "a part of the form has a backslash at the end of its name or file name, or two together, which "
                    + "servers read differently: \(name.debugDescription.prefix(80))"
            }
        }
        return nil
    }

    private static let boundaryCharacters = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'()+_,-./:=? ")

    func prepared() -> Result<RequestBody, RequestError> {
        var bodies: [RequestBody] = []
        // The bytes before the next large part: headers and small parts.
        var text = Data()
        for part in parts {
            text.append(header(of: part))
            let body: RequestBody
            switch part.content {
            case .data(let data) where data.count <= Self.smallBytes:
                text.append(data)
                text.append(contentsOf: "\r\n".utf8)
                continue
            case .data(let data): body = .data(data)
            case .stream(let stream): body = .stream(stream)
            case .file(let file):
                switch GivenBody.look(at: file) {
                case .success(let byteCount): body = .file(file, byteCount: byteCount)
                case .failure(let error): return .failure(error)
                }
            }
            bodies += [.data(text), body]
            text = Data("\r\n".utf8)
        }
        text.append(contentsOf: "--\(boundary)--\r\n".utf8)
        return .success(bodies.isEmpty ? .data(text) : .joined(bodies + [.data(text)]))
    }

    private static let smallBytes = 64 << 10

    private func header(of part: Part) -> Data {
        var text = "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(part.name.inQuotes)\""
        if let fileName = part.fileName { text += "; filename=\"\(fileName.inQuotes)\"" }
        text += "\r\n"
        if let contentType = part.contentType { text += "Content-Type: \(contentType)\r\n" }
        return Data((text + "\r\n").utf8)
    }
}

extension String {
    package var inQuotes: String {
        // A quotation mark with a combining mark is one `Character`, as are CR and LF, so scalars are compared.
        unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\"": text += "%22"
            case "\r": text += "%0D"
            case "\n": text += "%0A"
            default: text.unicodeScalars.append(scalar)
            }
        }
    }

    /// Whether a backslash precedes another backslash, or ends the text, where the form has a quotation mark after it.
    fileprivate var hasAmbiguousBackslash: Bool {
        let bytes = utf8
        return bytes.last == UInt8(ascii: "\\")
            || zip(bytes, bytes.dropFirst()).contains { $0 == UInt8(ascii: "\\") && $0 == $1 }
    }
}
