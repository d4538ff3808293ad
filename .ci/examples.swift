// What the code of the pages assumes, for .ci/examples. Nothing of it runs.
import Convoy
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

nonisolated func some<Value>() -> Value { fatalError() }
func expect(_ condition: Bool) {}
func show(_ texts: Any?...) {}
func fail(_ text: String) {}
func draw(_ fraction: Double?, _ bytes: Int64) {}
nonisolated func freshToken() async throws -> String { "token" }
nonisolated func log(_ data: Data?, _ response: ResponseHead?, _ error: RequestError?) {}
nonisolated func isNew(_ link: String) -> Bool { true }
nonisolated func work(_ job: Job) async -> Bool { true }

nonisolated struct User: Codable, Sendable { let id, name: String }
nonisolated struct Token: Codable, Sendable { let token, accessToken: String }
nonisolated struct Order: Codable, Sendable { let id: String }
nonisolated struct Link: Codable, Sendable { let link: String }
nonisolated struct Refusal: Error, Decodable { let reason: String }
actor Ledger { func note(_ id: String, receipt: Data) {} }

nonisolated struct Logger: Sendable {
    enum Level { case info, error }
    func log(_ level: Level, _ line: String) {}
}
nonisolated struct Registry: Sendable {
    func count(_ name: String, _ labels: [String: String]) {}
    func time(_ name: String, _ duration: Duration, _ labels: [String: String]) {}
}
nonisolated struct Span {
    let parent: String?, name: String, status: Int?, duration: Duration
}

nonisolated let manager: RequestManager = some()
var configuration = RequestManager.Configuration()
nonisolated let url: URL = some()
nonisolated let apiURL: URL = url
nonisolated let file: URL = url
nonisolated let directory: URL = url
nonisolated let photo: URL = url
nonisolated let urls: [URL] = some()
nonisolated let operation: RequestOperation<Data> = some()
var count = 0
let digest = ""
let lines: AsyncStream<Data> = some()

//: APIClient 4
let client: APIClient = some()
//: Batches 3
let requests: [Request<Data>] = some()
//: Chains
let credentials = ["name": "ada"]
let avatar = manager.operation(Request<Data>.get("avatar"))
//: Chains 4
let first = avatar
//: Chains 6
var all: [String] = []
//: ComingFrom
let (login, urlRequest, pin): (User, URLRequest, String) = some()
let request = Request<User>.get(url)
let form = MultipartForm()
let first = manager.operation(Request<Link>.get(url))
var options = ConnectionOptions()
//: ConvoyQueue
let (authenticator, ordersURL, order): (any RequestInterceptor, URL, Order) = some()
//: Cookbook
let (key, hexadecimal, proxyURL, authorityFile) = ("", "", url, url)
//: Cookbook 12
var all: [User] = []
//: Credentials
let (tokens, tokenURL, password, pin) = (manager, url, "", "")
//: EventStreams
var storedID: String?
//: GettingStarted 3
let ada: User = some()
//: MigratingFromAFNetworking
let paths: [String] = some()
//: MigratingFromURLSession
let urlRequest: URLRequest = some()
//: Observing
let logger = Logger()
let archive = file
//: StoresOfYourOwn 2
let store: any Store = here
//: Testing 7
let url = "http://example.com/a"
//: Uploads 4
var sources: [String] = []
//: WorkingWithJobs
let (store, queue, ledger): (any Store, DurableQueue, Ledger) = some()
let (paymentURL, parcelURL, photoURL, photoFile, filmURL, filmFile) = (url, url, url, url, url, url)
