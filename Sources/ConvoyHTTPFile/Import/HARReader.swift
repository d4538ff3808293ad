import Convoy
import Foundation

struct HARReader {
    private var file = ImportedFile()
    private let keepsAssets: Bool
    private var omitted: [String: Int] = [:]
    private var attachmentCount = 0

    static func read(_ log: JSONValue, keepsAssets: Bool) throws(Defect) -> ImportedFile {
        guard case .array(let entries)? = log["entries"] else {
            throw Defect("log contains no list of entries", "give a HAR that a browser has saved")
        }
        var reader = HARReader(keepsAssets: keepsAssets)
        for entry in entries { reader.read(entry) }
        reader.file.notes += reader.omitted.map { "omitted: \($1) \($0)" }.sorted()
        return reader.file
    }

    private init(keepsAssets: Bool) { self.keepsAssets = keepsAssets }

    private mutating func omit(_ what: String) { omitted[what, default: 0] += 1 }

    private mutating func read(_ entry: JSONValue) {
        guard let sent = entry["request"], let method = sent["method"]?.string?.uppercased(), !method.isEmpty,
            let url = sent["url"]?.string, !url.isEmpty
        else { return omit("entries without a method or URL") }
        guard url.lowercased().hasPrefix("http://") || url.lowercased().hasPrefix("https://") else {
            return omit("entries that are not http or https")
        }
        guard keepsAssets || !Self.isAsset(entry, method, url) else {
            return omit("images, fonts, scripts and style sheets; --all imports them")
        }
        var imported = ImportedRequest()
        imported.request.target = Template(url.importedURL)
        imported.setMethod(method)
        readFields(sent, &imported)
        if let data = sent["postData"], data != .null { readBody(data, &imported) }
        imported.completeBody()
        imported.request.title = Word(text: "\(method) \(url.urlPath)")
        imported.answer = entry["response"].map(Self.answer)
        file.requests.append(imported)
    }

    // MARK: Assets

    private static let assetKinds: Set = [
        "image", "font", "stylesheet", "script", "media", "texttrack", "manifest", "preflight",
    ]
    private static let assetEndings: Set = [
        "png", "jpg", "jpeg", "gif", "svg", "ico", "webp", "avif", "css", "js", "mjs", "map", "woff", "woff2", "ttf",
        "otf", "eot", "mp3", "mp4", "webm", "wasm",
    ]

    private static func isAsset(_ entry: JSONValue, _ method: String, _ url: String) -> Bool {
        if assetKinds.contains(entry["_resourceType"]?.string ?? "") { return true }
        guard method == "GET" || method == "HEAD" else { return false }
        let type = (entry["response"]?["content"]?["mimeType"]?.string ?? "").lowercased()
        let name = url.urlPath.split(separator: "/").last ?? ""
        return ["image/", "font/", "audio/", "video/", "text/css", "application/wasm"].contains(where: type.hasPrefix)
            || type.contains("javascript") || type.contains("font-")
            || name.contains(".") && assetEndings.contains(name.split(separator: ".").last?.lowercased() ?? "")
    }

    // MARK: Fields

    private static let noise: Set = [
        "host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive",
        "proxy-connection", "te", "trailer", "upgrade", "upgrade-insecure-requests", "dnt", "priority",
        "if-none-match", "if-modified-since", "x-client-data",
    ]

    private mutating func readFields(_ sent: JSONValue, _ imported: inout ImportedRequest) {
        for (name, value) in Self.pairs(sent["headers"]) {
            let small = name.lowercased()
            guard !name.hasPrefix(":"), !small.hasPrefix("sec-"), !Self.noise.contains(small) else { continue }
            imported.addField(name, Template(value))
        }
        guard imported.request.field("cookie") == nil else { return }
        let cookies = Self.pairs(sent["cookies"]).map { "\($0.name)=\($0.value)" }
        if !cookies.isEmpty { imported.addField("Cookie", Template(cookies.joined(separator: "; "))) }
    }

    private static func pairs(_ fields: JSONValue?) -> [(name: String, value: String)] {
        (fields?.elements ?? []).compactMap { field in
            guard let name = field["name"]?.string, let value = field["value"]?.scalarText else { return nil }
            return (name, value)
        }
    }

    // MARK: Bodies

    private mutating func readBody(_ data: JSONValue, _ imported: inout ImportedRequest) {
        let type = data["mimeType"]?.string ?? ""
        var text = data["text"]?.string ?? ""
        let parameters = data["params"]?.elements ?? []
        if text.isEmpty, !parameters.isEmpty { return readParameters(parameters, type, &imported) }
        guard !text.isEmpty else { return }
        if !type.isEmpty { imported.setType(type) }
        if (data["encoding"] ?? data["_encoding"])?.string?.lowercased() == "base64" {
            guard let bytes = Data(base64Encoded: text, options: .ignoreUnknownCharacters) else {
                return imported.notes.append("the body is omitted: it is not valid base64")
            }
            guard let decoded = String(validating: bytes, as: UTF8.self) else {
                attachmentCount += 1
                imported.bytes = Array(bytes)
                imported.request.body = [.file(FileReference("body-\(attachmentCount).bin"))]
                return
            }
            text = decoded
        }
        imported.request.body = [.text(Template(text))]
    }

    private func readParameters(_ parameters: [JSONValue], _ type: String, _ imported: inout ImportedRequest) {
        if type.lowercased().hasPrefix("multipart/") {
            let parts = parameters.map { parameter in
                FormParts.Part(
                    name: Template(parameter["name"]?.scalarText ?? ""),
                    content: .text(Template(parameter["value"]?.scalarText ?? "")),
                    fileName: (parameter["fileName"]?.string).map { Template($0) },
                    type: (parameter["contentType"]?.string).map { Template($0) })
            }
            return imported.request.setParts(parts)
        }
        imported.setForm(
            // Some browsers record these values percent-encoded, so existing escapes are not encoded again.
            parameters.map { field in ["name", "value"].map { Template((field[$0]?.scalarText ?? "").formEncoded) } })
    }

    private static func answer(_ response: JSONValue) -> ImportedAnswer {
        let text = response["content"]?["text"]?.string ?? ""
        var bytes = text.looksLikeJSON ? Array(text.utf8) : []
        if response["content"]?["encoding"]?.string?.lowercased() == "base64" {
            bytes = Data(base64Encoded: text, options: .ignoreUnknownCharacters).map(Array.init) ?? []
        }
        return ImportedAnswer(
            fields: pairs(response["headers"]), json: bytes.count <= 8 << 20 ? JSONValue(json: bytes) : nil)
    }
}

extension String {
    var urlPath: String {
        let text = self[self[(schemeEnd ?? startIndex)...].authority.endIndex...].prefix { !"?#".contains($0) }
        return text.isEmpty ? "/" : String(text)
    }

    var formEncoded: String {
        PercentEscaper.url.escaped(self).replacing("&", with: "%26").replacing("+", with: "%2B")
            .replacing("=", with: "%3D")
    }
}

extension FileReference {
    init(_ path: String) { self.init(path: Template(path)) }
}
