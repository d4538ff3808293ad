import Convoy
import Foundation
import Testing

@Suite struct ResponsePagesTests {
    /// A server whose responses have the path as body and a link to the next page.
    private static func server(_ links: [String: String]) -> StubServer {
        StubServer { exchange in
            let url = exchange.request.url
            let fields: HeaderFields = links[url.absoluteString].map { ["Link": "<\($0)>; rel=\"next\""] } ?? [:]
            exchange.answer(200, headerFields: fields, body: Data(url.path.utf8))
        }
    }

    private func read(_ pages: ResponsePages<String>, most: Int = 10) async -> ([String], RequestError?) {
        var (read, failure): ([String], RequestError?) = ([], nil)
        var iterator = pages.makeAsyncIterator()
        do throws(RequestError) {
            while read.count < most, let page = try await iterator.next() { read.append(page.value) }
        } catch { failure = error }
        // An error ends the sequence and is thrown once.
        if failure != nil { #expect((try? await iterator.next())??.value == nil) }
        return (read, failure)
    }

    @Test func pagesAreFetchedOnlyWhenTheyAreAskedFor() async throws {
        let (server, manager) = StubServer { $0.answer(200, body: Data($0.request.url.path.utf8)) }.withManager()
        let told = EventLog<String>()
        let pages = manager.pages(Request<String>.get("http://stub/1")) { page in
            told.record(page.value)
            let number = Int(page.value.dropFirst()) ?? 0
            return number < 3 ? Request<String>.get("http://stub/\(number + 1)") : nil
        }
        for try await page in pages where page.value == "/2" { break }
        #expect(server.paths == ["/1", "/2"] && told.events == ["/1"])
        let (all, error) = await read(pages)
        #expect(all == ["/1", "/2", "/3"] && error == nil)
        #expect(server.paths == ["/1", "/2", "/1", "/2", "/3"])
    }

    @Test func cancellingTheLoopCancelsTheRequest() async {
        let (server, manager) = StubServer.held().withManager()
        let loop = Task { await read(manager.pages(Request<String>.get("http://stub/1"))) }
        await server.exchanges.wait()
        loop.cancel()
        let (pages, error) = await loop.value
        #expect(pages.isEmpty && error?.code == .cancelled)
        await manager.drain()
    }

    @Test func linksAreFollowedAndResolved() async {
        let server = Self.server([
            "http://stub/a/1?x=1": "2", "http://stub/a/2": "/b?n=3", "http://stub/b?n=3": "?n=4",
        ])
        let manager = server.manager { $0.baseURL = URL(string: "http://stub/a/") }
        let first = Request<String>.post("1", json: ["a"]).query(["x": 1]).header("X-Kept", "yes").bearer("token")
            .header("If-None-Match", "\"1\"").header("Range", "bytes=0-9")
        let (pages, error) = await read(manager.pages(first))
        #expect(error == nil && pages == ["/a/1", "/a/2", "/b", "/b"])
        let requests = server.exchanges.events.map(\.request)
        #expect(requests.map(\.method) == [.post, .get, .get, .get])
        #expect(requests.map(\.url.query) == ["x=1", nil, "n=3", "n=4"])
        #expect(requests.dropFirst().allSatisfy { $0.body == nil && !$0.headerFields.contains("Content-Type") })
        // Conditions and ranges apply only to the first page.
        #expect(requests.map { $0.headerFields.contains("If-None-Match") } == [true, false, false, false])
        #expect(requests.map { $0.headerFields.contains("Range") } == [true, false, false, false])
        #expect(requests.allSatisfy { $0.headerFields["X-Kept"] == "yes" && $0.headerFields["Authorization"] != nil })
    }

    /// A sequence that ended without an error would seem complete.
    @Test(arguments: [
        ("http://[", RequestError.Code.badResponse), ("http://st\\ub/2", .badResponse),
        ("http://stub/" + String(repeating: "a", count: 17_000), .badResponse), ("", .pageRepeated),
        ("http://u:s3cret@[", .badResponse),
        ("#1", .pageRepeated), ("ftp://stub/2", .invalidRequest),
    ])
    func aNextPageThatCannotBeFetchedIsAnError(link: String, code: RequestError.Code) async {
        let server = Self.server(["http://stub/1": link])
        let (pages, error) = await read(server.manager().pages(Request<String>.get("http://stub/1")))
        #expect(pages == ["/1"] && error?.code == code, "\(error.map(String.init(describing:)) ?? "no error")")
        #expect(server.exchanges.count == 1 && error?.message.contains("s3cret") == false)
    }

    @Test func aPageThatWasFetchedBeforeIsAnError() async {
        let server = Self.server(["http://stub/1": "http://stub/2", "http://stub/2": "http://stub/1"])
        let (pages, error) = await read(server.manager().pages(Request<String>.get("http://stub/1")))
        #expect(pages == ["/1", "/2"] && error?.code == .pageRepeated)
        #expect(error?.request == "GET http://stub/1" && error?.message.contains("fetched before") == true)

        let posts = StubServer()
        let made = EventLog<Int>()
        let first = Request<String>.post("http://stub/search", json: ["page": 0])
        let looping = posts.manager().pages(first) { _ in
            made.record(0)
            return Request<String>.post("http://stub/search", json: ["page": min(made.count, 3)])
        }
        let (found, failure) = await read(looping)
        #expect(found.count == 4 && failure?.code == .pageRepeated && posts.exchanges.count == 4)
    }

    /// Another server must not decide which servers receive credentials.
    @Test func aPageThatARedirectHasLedElsewhereGivesNoCredentialsBack() async {
        let server = StubServer { exchange in
            switch exchange.request.url.absoluteString {
            case "http://stub/1": exchange.answer(302, headerFields: ["Location": "http://other/1"])
            case "http://other/1": exchange.answer(200, headerFields: ["Link": "<http://stub/2>; rel=\"next\""])
            default: exchange.answer(200)
            }
        }
        let pages = server.manager().pages(Request<String>.get("http://stub/1").bearer("token"))
        let (read, error) = await read(pages)
        #expect(read.count == 2 && error == nil)
        let sent = server.exchanges.events.map { $0.request.headerFields.contains("Authorization") }
        #expect(sent == [true, false, false])
    }

    @Test func aLinkToAnotherOriginGetsNoCredentials() async {
        let naive = Interceptor(adapting: { request, attempt in
            var request = request
            request.headerFields["X-Attempt"] = "\(attempt.hasLeftOrigin)"
            if !request.headerFields.contains("Authorization") { request.headerFields["Authorization"] = "naive" }
            return request
        })
        let server = Self.server([
            "http://user:pass@stub/1": "http://me:pw@other/2", "http://other/2": "http://stub/3",
            "http://stub/3": "https://stub/4",
        ])
        let manager = server.manager {
            $0.headerFields.add("Authorization", "default")
            $0.headerFields.add("X-Key", "secret", isSecret: true)
            $0.interceptors = [naive]
        }
        let first = Request<String>.get("http://user:pass@stub/1").header("Cookie", "a=b").header("X-Plain", "yes")
        let (pages, error) = await read(manager.pages(first))
        #expect(pages == ["/1", "/2", "/3", "/4"] && error == nil)
        let requests = server.exchanges.events.map(\.request)
        #expect(requests.first?.headerFields["Cookie"] == "a=b" && requests.first?.headerFields["X-Key"] == "secret")
        for request in requests.dropFirst() {
            #expect(!request.headerFields.contains { $0.isSecret } && request.url.user == nil)
            #expect(request.headerFields["X-Plain"] == "yes" && request.headerFields["X-Attempt"] == "true")
        }
    }

    @Test func credentialsOfTheURLStayAtTheirOrigin() async {
        let server = Self.server([
            "http://user:pass@stub/1": "/2", "http://user:pass@stub/2": "//evil@stub/3", "http://stub/3": "/4",
        ])
        _ = await read(server.manager().pages(Request<String>.get("http://user:pass@stub/1")))
        let urls = server.exchanges.events.map(\.request.url.absoluteString)
        #expect(urls == ["http://user:pass@stub/1", "http://user:pass@stub/2", "http://user:pass@stub/3"])
    }

    @Test(arguments: [false, true])
    func aLinkFromHTTPSToHTTPIsRefused(allowsInsecure: Bool) async {
        let server = Self.server(["https://stub/1": "http://stub/2"])
        let manager = server.manager { $0.redirects.allowsInsecure = allowsInsecure }
        let (pages, error) = await read(manager.pages(Request<String>.get("https://stub/1")))
        #expect(pages == (allowsInsecure ? ["/1", "/2"] : ["/1"]))
        #expect(error?.code == (allowsInsecure ? nil : .redirectRefused))
    }

    @Test func anErrorOfTheFunctionEndsThePages() async {
        struct Broken: Error {}
        let manager = StubServer().manager()
        let first = Request<String>.get("http://stub/1")
        let (pages, error) = await read(manager.pages(first) { _ in throw Broken() })
        #expect(pages.count == 1 && error?.code == .invalidRequest && error?.underlying is Broken)
        let passing = await read(manager.pages(first) { _ in throw RequestError(.badResponse, "no cursor") })
        #expect(passing.1?.code == .badResponse)
        let unsendable = await read(manager.pages(first) { _ in .get("ftp://stub/2") })
        #expect(unsendable.1?.code == .invalidRequest)
    }
}
