// A program that uses a cache in a directory, for tests that kill it at any moment.
//
//   CacheWorker DIRECTORY SEED COUNT TASKS [MICROSECONDS]
//
// It sends COUNT requests from TASKS tasks and checks each body, which its key determines. With MICROSECONDS it kills
// itself that long after its start. It prints a line for each wrong body, and then the numbers of hits, validations
// and repairs. Its exit status is 1 after a wrong body.
import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation

/// A generator that repeats its numbers for a seed: SplitMix64.
struct Generator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// The content of the origin: a body for each number.
enum Origin {
    static let keyCount = 48

    /// Some bodies are empty, some are small enough for the index, and some need files.
    ///
    /// A random block is repeated, because single random numbers take seconds in a debug build. The block's length is
    /// prime, so a piece in the wrong place is noticed.
    static let bodies = (0..<keyCount).map(make)

    private static func make(_ number: Int) -> Data {
        let count = [0, 700, 5_000, 33_000, 90_000, 200_000][number % 6]
        var generator = Generator(state: UInt64(number))
        let block = (0..<509).map { _ in UInt8.random(in: 0...255, using: &generator) }
        var data = Data(capacity: count + block.count)
        while data.count < count { data += block }
        return data.prefix(count)
    }

    /// Responds to a request in pieces, on another thread.
    static func answer(_ exchange: StubExchange) {
        DispatchQueue.global().async {
            let number = Int(exchange.request.url.lastPathComponent) ?? 0
            let tag = "\"\(number)\""
            // One body in three must be validated for each request.
            let control = number % 3 == 0 ? "no-cache" : "max-age=3600"
            let fields: HeaderFields = ["Cache-Control": control, "ETag": tag, "Vary": "X-Secret"]
            if exchange.request.headerFields["If-None-Match"] == tag {
                return exchange.answer(304, headerFields: fields)
            }
            let body = bodies[number]
            exchange.respond(
                ResponseHead(
                    statusCode: 200, headerFields: fields, url: exchange.request.url,
                    expectedBytes: Int64(body.count)))
            for start in stride(from: 0, to: body.count, by: 16_384) {
                exchange.send(body[start..<min(start + 16_384, body.count)])
            }
            exchange.finish()
        }
    }
}

@Sendable func send(_ numbers: [Int], by manager: RequestManager) async -> Int {
    var wrong = 0
    for (index, number) in numbers.enumerated() {
        let url = "http://origin.test/\(number)"
        var request = Request<Data>.get(url).header("Authorization", "Bearer token")
        if index % 23 == 22 { request = Request<Data>(method: .post, url: url) }
        if index % 17 == 16 { request = request.cachePolicy(.reload) }
        let response = try? await manager.send(request)
        if response?.value != Origin.bodies[number] {
            wrong += 1
            print("wrong", number, response?.value.count ?? -1)
        }
    }
    return wrong
}

let arguments = CommandLine.arguments
let numbers = arguments.dropFirst(2).compactMap { UInt64($0) }
guard numbers.count == arguments.count - 2, numbers.count == 3 || numbers.count == 4 else {
    print("usage: CacheWorker DIRECTORY SEED COUNT TASKS [MICROSECONDS]")
    exit(2)
}
if numbers.count == 4 {
    Thread.detachNewThread {
        usleep(UInt32(clamping: numbers[3]))
        kill(getpid(), SIGKILL)
    }
}
var configuration = RequestManager.Configuration()
configuration.transport = .custom(StubTransport(handler: Origin.answer))
// All bodies together are larger than the capacity, so the cache keeps removing responses.
let cache = HTTPCache(directory: URL(fileURLWithPath: arguments[1]), capacity: 2_000_000)
configuration.cache = cache
let manager = RequestManager(configuration: configuration)
var generator = Generator(state: numbers[0])
let chosen = (0..<numbers[1]).map { _ in Int.random(in: 0..<Origin.keyCount, using: &generator) }
let taskCount = max(1, Int(numbers[2]))
let wrong = await withTaskGroup(of: Int.self) { group in
    for task in 0..<taskCount {
        let own = chosen.enumerated().filter { $0.offset % taskCount == task }.map(\.element)
        group.addTask { await send(own, by: manager) }
    }
    var wrong = 0
    for await count in group { wrong += count }
    return wrong
}
let statistics = cache.statistics
print("hits", statistics.hits, "validations", statistics.validations, "repairs", statistics.repairs)
exit(wrong == 0 ? 0 : 1)
