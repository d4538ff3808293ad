#if os(Linux)
    import ConvoyTesting
    import Foundation
    import Testing

    @testable import Convoy

    /// Compares forms with the result of Python's `email` package.
    @Suite(.timeLimit(.minutes(5))) struct FormParsersTests {
        private static let program = """
            import base64, email.message, email.parser, json, sys

            def parameter(part, key):
                # A header beyond ASCII is kept as its bytes.
                raw = dict((k.lower(), v) for k, v in part.raw_items())["content-disposition"]
                message = email.message.Message()
                message["Content-Disposition"] = raw.encode("ascii", "surrogateescape").decode("utf-8")
                return message.get_param(key, header="content-disposition")

            results = []
            for index in range(int(sys.argv[1])):
                head = open("type%d" % index, "rb").read()
                body = open("body%d" % index, "rb").read()
                whole = email.parser.BytesParser().parsebytes(b"Content-Type: " + head + b"\\r\\n\\r\\n" + body)
                parts = whole.get_payload() if whole.is_multipart() else []
                results.append([
                    {"name": parameter(part, "name"), "fileName": parameter(part, "filename"),
                     "contentType": part["Content-Type"], "content": base64.b64encode(part.get_payload(decode=True)).decode()}
                    for part in parts
                ])
            print(json.dumps(results))
            """

        private struct Part: Decodable, Equatable {
            var name: String
            var fileName: String?
            var contentType: String?
            var content: Data
        }

        private static let hasPython =
            ["/usr/bin", "/usr/local/bin", "/bin"].contains {
                access($0 + "/python3", X_OK) == 0
            }
            || ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":").contains {
                access($0 + "/python3", X_OK) == 0
            } == true

        @Test(.enabled(if: hasPython)) func anotherParserSeesTheSameParts() async throws {
            let directory = try TemporaryDirectory()
            let forms = try Self.forms(directory)
            for (index, form) in forms.enumerated() {
                try Data(form.contentType.utf8).write(to: directory.file("type\(index)"))
                try form.rendered().write(to: directory.file("body\(index)"))
            }
            try Data(Self.program.utf8).write(to: directory.file("parse.py"))
            let output = Locked(Data())
            let process = try SpawnedProcess(["python3", "parse.py", "\(forms.count)"], in: directory.url) { bytes in
                output.withLock { $0 += bytes }
            }
            let status = await offPool { process.waitForEnd(within: .seconds(40)) }
            let text = output.withLock { $0 }
            try #require(status == 0, "\(String(decoding: text.prefix(2_000), as: UTF8.self))")
            let seen = try JSONDecoder().decode([[Part]].self, from: text)
            #expect(seen.count == forms.count)
            for (form, parts) in zip(forms, seen) {
                let expected = try form.received().map {
                    // Python does not decode %22.
                    Part(
                        name: $0.name.replacingOccurrences(of: "\"", with: "%22"),
                        fileName: $0.fileName?.replacingOccurrences(of: "\"", with: "%22"), contentType: $0.contentType,
                        content: $0.content)
                }
                #expect(parts == expected)
            }
        }

        private static func forms(_ directory: TemporaryDirectory) throws -> [MultipartForm] {
            let file = directory.file("part.png")
            let content = Data.patterned(200_003)
            try content.write(to: file)
            var mixed = MultipartForm()
            mixed.append("Ann", name: "user")
            mixed.append("grüße\r\nund\nmehr\r", name: "text")
            mixed.append(file: file, name: "photo")
            mixed.append(Data(), name: "empty", fileName: "empty.txt")
            mixed.append(Data((0...255).map { UInt8($0) }), name: "all bytes", fileName: "bytes.bin")
            mixed.append(byteCount: 200_003, name: "stream") { InputStream(data: content) }
            var quoted = MultipartForm(boundary: "a b:c")
            quoted.append("1", name: "one")
            quoted.append("--a b:", name: "two")
            var hostile = MultipartForm()
            for name in [
                "\"", "\"; filename=\"evil", "a;b", "ü", "日本", "'", "%0D%0A", "a b", "🏴‍☠️", #"C:\dir\a.txt"#,
                String(repeating: "n", count: 10_000),
                String(repeating: "\"", count: 10_000),
            ] {
                hostile.append("value of it", name: name)
                hostile.append(Data("value".utf8), name: "file", fileName: name, contentType: "a/b")
            }
            return [mixed, quoted, hostile]
        }
    }
#endif
