import Testing

@testable import ConvoyCommand

@Suite struct FileNameRegisterTests {
    @Test func sameNamesAreNumberedAndNeverMeet() {
        var register = FileNameRegister()
        let names = ["a.b", "a-1.b", "a.b", "a.b", "a-1.b", "c"].map { register.claim($0) }
        #expect(names == ["a.b", "a-1.b", "a-2.b", "a-3.b", "a-1-1.b", "c"])
    }

    @Test func aHundredThousandEqualNamesTakeLinearTime() {
        var register = FileNameRegister()
        var last = ""
        for _ in 0..<100_000 { last = register.claim("download") }
        #expect(last == "download-99999")
    }
}
