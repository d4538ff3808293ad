// The client under test of a suite for caches: it reads requests and prints responses, one JSON object a line.
import Convoy
import ConvoyCache
import Foundation

struct Line: Decodable, Sendable {
    let id: Int
    let method: String
    let url: String
    let headers: [[String]]
    let body: String?
    let cache: String
    let redirect: String
}

struct Answer: Encodable, Sendable {
    let id: Int
    var status: Int?
    var headers: [[String]]?
    var body: String?
    var error: String?
}

actor Printer {
    func print(_ answer: Answer) {
        guard var line = try? JSONEncoder().encode(answer) else { return }
        line.append(UInt8(ascii: "\n"))
        FileHandle.standardOutput.write(line)
    }
}

extension Line {
    var policy: CachePolicy {
        switch cache {
        case "no-store": .noStore
        case "reload": .reload
        case "no-cache": .revalidate
        case "force-cache": .preferCache
        case "only-if-cached": .onlyCache
        default: .standard
        }
    }

    var request: Request<Data> {
        var request = Request<Data>(method: HTTPMethod(method), url: url)
            .cachePolicy(policy).acceptableStatusCodes(.any).redirects(redirect == "follow" ? .follow : .never)
            .keepingUnknownCodings()
        for header in headers where header.count == 2 { request = request.addingHeader(header[0], header[1]) }
        if let body { request = request.body(Data(body.utf8), contentType: nil) }
        return request
    }

    func answer(_ manager: RequestManager) async -> Answer {
        do {
            let response = try await manager.send(request)
            if policy == .onlyCache, response.metrics?.cache?.isHit != true {
                return Answer(id: id, error: "nothing is stored for it")
            }
            if redirect == "error", (300..<400).contains(response.statusCode) {
                return Answer(id: id, error: "it was redirected")
            }
            return Answer(
                id: id, status: response.statusCode, headers: response.headerFields.map { [$0.name, $0.value] },
                body: String(decoding: response.value, as: UTF8.self))
        } catch {
            return Answer(id: id, error: error.message)
        }
    }
}

var configuration = RequestManager.Configuration(
    maxConcurrentOperationCount: 256, maxConcurrentPerHost: 256, idleTimeout: .seconds(30), retries: .never)
// The suite's server closes a connection that was idle for five seconds. A POST on such a connection fails, because it
// is not sent again. So Convoy closes idle connections after three seconds.
var connections = ConnectionOptions()
connections.idleConnectionTime = .seconds(3)
configuration.transport = (try? .connecting(with: connections)) ?? .automatic
var caching = HTTPCache.Configuration()
caching.answersGatewayTimeout = true
if CommandLine.arguments.contains("--shared") { caching.sharing = .shared(targets: ["CDN-Cache-Control"]) }
let directory = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-cache-\(UUID().uuidString)")
configuration.cache = HTTPCache(directory: directory, capacity: 256 << 20, configuration: caching)
let manager = RequestManager(configuration: configuration)
let printer = Printer()
await withTaskGroup(of: Void.self) { group in
    while let text = readLine() {
        guard let line = try? JSONDecoder().decode(Line.self, from: Data(text.utf8)) else { continue }
        group.addTask { await printer.print(await line.answer(manager)) }
    }
}
try? FileManager.default.removeItem(at: directory)
