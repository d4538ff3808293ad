import Convoy
import Foundation
import Testing

@testable import ConvoyCache

struct CacheRulesTests {
    private func refusal(
        _ control: String?, status: Int = 200, fields: HeaderFields = [:], request: HeaderFields = [:],
        sharing: CacheSharing = .private
    ) -> CacheRules.Refusal? {
        var fields = fields
        if let control { fields["Cache-Control"] = control }
        return CacheRules.refusal(status, fields, to: request, sharing)
    }

    @Test func aResponseIsStorableByItsFieldsOrItsStatus() {
        #expect(refusal(nil) == nil)
        #expect(refusal(nil, status: 201) == .noFreshness)
        #expect(refusal("max-age=0", status: 201) == nil)
        #expect(refusal("max-age=5", status: 599) == nil)
        #expect(refusal("private", status: 201) == nil)
        #expect(refusal("public", status: 302) == nil)
        #expect(refusal(nil, status: 302) == .noFreshness)
        #expect(refusal(nil, status: 302, fields: ["Expires": "0"]) == nil)
        // These status codes depend on the range or the condition of the request, which the cache key does not
        // contain.
        for status in [304, 412, 416] { #expect(refusal("max-age=5", status: status) == .status) }
        #expect(refusal("s-maxage=5", status: 201) == .noFreshness)
        #expect(refusal("s-maxage=5", status: 201, sharing: .shared()) == nil)
    }

    @Test func noStoreIsKeptToUnlessMustUnderstandReplacesIt() {
        #expect(refusal("No-Store, max-age=5") == .noStore)
        #expect(refusal("foo=\"no-store\", max-age=5") == nil)
        #expect(refusal("max-age=5", request: ["Cache-Control": "no-store"]) == .requestNoStore)
        #expect(refusal("no-store, must-understand, max-age=5") == nil)
        #expect(refusal("no-store, must-understand, max-age=5", status: 599) == .status)
        #expect(refusal("must-understand, max-age=5", status: 599) == .status)
    }

    @Test func sharedCacheStoresNothingOfOneUser() {
        let request: HeaderFields = ["Authorization": "Bearer a"]
        #expect(refusal("private, max-age=5", sharing: .shared()) == .privateResponse)
        #expect(refusal("private=\"Set-Cookie\", max-age=5", sharing: .shared()) == nil)
        // A blank before the equals sign makes the argument invalid, so `private` applies to the whole response.
        #expect(refusal("private =\"Set-Cookie\", max-age=5", sharing: .shared()) == .privateResponse)
        #expect(refusal("max-age=5", request: request, sharing: .shared()) == .authorization)
        for word in ["public", "must-revalidate", "s-maxage=5"] {
            #expect(refusal("max-age=5, \(word)", request: request, sharing: .shared()) == nil)
        }
        #expect(refusal("max-age=5", request: request) == nil)
    }

    @Test func targetedFieldReplacesExpiresAndNamesThePrivateFields() {
        let sharing = CacheSharing.shared(targets: ["CDN-Cache-Control"])
        let targeted: HeaderFields = ["Expires": "0", "CDN-Cache-Control": "must-revalidate"]
        #expect(refusal(nil, status: 201, fields: ["Expires": "0"], sharing: sharing) == nil)
        #expect(refusal(nil, status: 201, fields: targeted, sharing: sharing) == .noFreshness)
        let fields: HeaderFields = [
            "CDN-Cache-Control": "private=\"set-cookie, \\\"A\", no-cache=\"B\", max-age=5", "Set-Cookie": "a=1",
            "B": "2",
        ]
        #expect(CacheRules.storedFields(fields, sharing: sharing).map(\.name) == ["CDN-Cache-Control"])
        let unnamed: HeaderFields = ["CDN-Cache-Control": "private=\"\", max-age=5"]
        #expect(refusal(nil, fields: unnamed, sharing: sharing) == .privateResponse)
    }

    @Test func partNeedsItsPlace() {
        #expect(refusal("max-age=5", status: 206) == .range)
        #expect(refusal("max-age=5", status: 206, fields: ["Content-Range": "bytes 0-4/10"]) == nil)
        #expect(refusal("max-age=5", status: 206, fields: ["Content-Range": "bytes */10"]) == .range)
    }

    @Test func fieldsOfOneHopAreNotStored() {
        let fields: HeaderFields = [
            "Connection": "a, Close", "A": "1", "Keep-Alive": "x", "Transfer-Encoding": "chunked", "B": "2",
            "Cache-Control": "no-cache=\"c, Set-Cookie\", private=\"d\"", "C": "3", "D": "4", "Set-Cookie": "s=1",
        ]
        #expect(CacheRules.storedFields(fields, sharing: .private).map(\.name) == ["B", "Cache-Control", "D"])
        #expect(CacheRules.storedFields(fields, sharing: .shared()).map(\.name) == ["B", "Cache-Control"])
    }

    @Test func a304UpdatesAllFieldsButThoseOfTheBody() {
        let stored: HeaderFields = ["ETag": "\"a\"", "X": "1", "X": "2", "Y": "1", "Age": "5", "Date": "d1"]
        let received: HeaderFields = [
            "Content-Range": "bytes 0-1/2", "X": "3", "Date": "d2", "Connection": "Z", "Z": "1",
        ]
        let updated = CacheRules.updated(stored, with: received, sharing: .private)
        #expect(updated.values(of: "X") == ["3"])
        #expect(updated["Y"] == "1" && updated["Date"] == "d2")
        for name in ["Age", "Content-Range", "Z"] { #expect(!updated.contains(name)) }
    }

    private static let fieldsOfTheBody = [
        "Content-Type", "content-type", "Content-Encoding", "Content-Language", "Content-Length", "Content-Range",
        "Content-MD5", "Content-Digest", "Repr-Digest", "Digest", "ETag",
    ]
    /// RFC 9111, section 3.2, requires the update of all other fields, also of those whose names begin like these.
    private static let others = [
        "Content-Location", "Content-Security-Policy", "Content-Disposition", "Content-Foo", "X-Content-Type",
        "Cache-Control", "Expires", "Last-Modified", "Vary", "Set-Cookie",
    ]

    /// The fields that describe the stored bytes stay, also if the stored response lacks them.
    @Test(arguments: fieldsOfTheBody.map { ($0, true) } + others.map { ($0, false) })
    func a304KeepsOnlyFieldsOfTheBody(_ name: String, _ isKept: Bool) {
        let received: HeaderFields = [name: "b", "X": "2"]
        let updated = CacheRules.updated([name.uppercased(): "a", "X": "1"], with: received, sharing: .private)
        #expect(updated.values(of: name) == [isKept ? "a" : "b"])
        #expect(updated["X"] == "2")
        #expect(CacheRules.updated(["X": "1"], with: received, sharing: .private).contains(name) != isKept)
    }

    @Test func invalidatesItsURLAndThoseItNamesOfItsOrigin() throws {
        let url = try #require(URL(string: "http://a.test/x/y"))
        func invalidated(_ method: String, _ status: Int, _ fields: HeaderFields) throws -> [String] {
            let request = try PreparedRequest(checking: Request<Data>(method: HTTPMethod(method), url: url))
            let head = ResponseHead(statusCode: status, headerFields: fields, url: url)
            return CacheRules.invalidated(request, head).map(\.absoluteString)
        }
        let fields: HeaderFields = ["Location": "/z", "Content-Location": "http://b.test/x"]
        #expect(try invalidated("POST", 200, fields) == ["http://a.test/x/y", "http://a.test/z"])
        #expect(try invalidated("UNKNOWN", 302, [:]) == ["http://a.test/x/y"])
        #expect(try invalidated("DELETE", 404, fields).isEmpty)
        #expect(try invalidated("PUT", 500, fields).isEmpty)
        #expect(try invalidated("GET", 200, fields).isEmpty)
        #expect(try invalidated("OPTIONS", 200, fields).isEmpty)
    }
}

struct VaryKeyTests {
    private func matches(
        _ vary: String, _ stored: HeaderFields, _ presented: HeaderFields, language: String? = nil
    ) -> Bool {
        guard let names = VaryKey.names(["Vary": vary]) else { return false }
        let digest = KeyedDigest()
        return VaryKey(names, stored, digest).matches(presented, contentLanguage: language, digest)
    }

    @Test func fieldsAreComparedByMeaning() {
        #expect(matches("Foo", ["Foo": "1, 2"], ["foo": "1,2"]))
        #expect(matches("Foo", ["Foo": "1, 2"], ["foo": "1", "foo": "2"]))
        #expect(!matches("Foo", ["Foo": "1, 2"], ["foo": "2, 1"]))
        #expect(!matches("Foo", ["Foo": "a"], ["foo": "A"]))
        #expect(!matches("Foo", ["Foo": "1"], [:]))
        #expect(!matches("Foo", [:], ["Foo": "1"]))
        #expect(!matches("Foo", [:], ["Foo": ""]))
        #expect(matches("Foo", [:], [:]))
        #expect(matches("Foo, Bar", ["Foo": "1", "Bar": "2"], ["Bar": "2", "Foo": "1", "Other": "3"]))
        #expect(matches("Accept-Language", ["Accept-Language": "en, DE"], ["Accept-Language": "de;q=1.0,EN"]))
        #expect(!matches("Accept-Language", ["Accept-Language": "en, de"], ["Accept-Language": "en, de;q=0.5"]))
        #expect(matches("", ["Foo": "1"], ["Foo": "2"]))
    }

    /// Each text is an invalid value of `Accept`, which a client may send.
    @Test(arguments: ["a;q=nan, b;q=inf, c;q=-1", "a;q=-inf", "a;q=1e999", "a;q=", "a;=", ";", "a;b=\"", "a;b=\"\\"])
    func invalidWeightIsCompared(_ text: String) {
        #expect(matches("Accept", ["Accept": text], ["Accept": text]))
        #expect(!matches("Accept", ["Accept": text], ["Accept": "text/plain"]))
    }

    @Test func quotedParameterIsComparedAsItIs() {
        let stored: HeaderFields = ["Accept": "text/a;profile=\"A;q=1\";Q=0.50"]
        #expect(matches("Accept", stored, ["Accept": "TEXT/A ; PROFILE=\"A;q=1\" ; q=0.5"]))
        #expect(!matches("Accept", stored, ["Accept": "text/a;profile=\"a;q=1\";q=0.5"]))
        #expect(!matches("Accept", stored, ["Accept": "text/a;profile=\"A\";q=0.5"]))
    }

    @Test func preferredLanguageSelects() {
        let stored: HeaderFields = ["Accept-Language": "en;q=0.5, de"]
        #expect(matches("accept-language", stored, ["Accept-Language": "fr;q=0.5, de"], language: "de"))
        #expect(!matches("accept-language", stored, ["Accept-Language": "fr, de"], language: "de"))
        #expect(!matches("accept-language", stored, ["Accept-Language": "fr, de;q=0.5"], language: "de"))
        #expect(!matches("accept-language", stored, [:], language: "de"))
    }

    @Test(arguments: ["*", "Foo, *", "*, Foo", ", *", "*, *"])
    func asteriskMatchesNothing(_ vary: String) { #expect(VaryKey.names(["Vary": vary]) == nil) }

    @Test func secretsAreNotKept() {
        let fields: HeaderFields = ["Cookie": "session", "Authorization": "Bearer token", "X-Key": "key"]
        let names: Set = ["cookie", "authorization", "x-key"]
        let key = VaryKey(names, fields, KeyedDigest())
        for secret in ["session", "token", "\"key\""] { #expect(!"\(key)".contains(secret)) }
        // Each cache has its own key for digests, so equal secrets in two caches have different digests.
        #expect(VaryKey(names, fields, KeyedDigest()) != key)
    }
}
