// One request for .ci/path. The coverage counters are written when it ends.
import Convoy
import Foundation

struct Item: Decodable, Sendable { let id: Int }

/// A server that gives every request the same answer.
///
/// It does not use Convoy, so that it is not counted.
func serve() -> UInt16 {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
            guard bind(listener, address, length) == 0, listen(listener, 8) == 0 else { exit(2) }
            getsockname(listener, address, &length)
        }
    }
    Thread.detachNewThread {
        while true {
            let connection = accept(listener, nil, nil)
            var request = [UInt8](repeating: 0, count: 4096)
            guard read(connection, &request, request.count) > 0 else { continue }
            let body = #"{"id": 1}"#
            let answer =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
            _ = answer.withCString { write(connection, $0, strlen($0)) }
        }
    }
    return address.sin_port.bigEndian
}

let manager = RequestManager()
let url = "http://127.0.0.1:\(serve())/item"
switch CommandLine.arguments[1] {
case "data":
    let body = try await manager.send(Request<Data>.get(url)).value
    precondition(body.count == 9)
case "json":
    let item = try await manager.send(Request<Item>.get(url)).value
    precondition(item.id == 1)
case "download":
    let file = URL(fileURLWithPath: CommandLine.arguments[2])
    try? FileManager.default.removeItem(at: file)
    _ = try await manager.send(Request.get(url).saved(to: file)).value
default: break
}
