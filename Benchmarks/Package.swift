// swift-tools-version: 6.2
// The only place of the project with dependencies: the peers that Convoy is measured against.
import PackageDescription

let package = Package(
    name: "convoy-benchmarks",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "convoy-bench", targets: ["ConvoyBench"]),
        // Preloaded into the cases of `convoy-bench cost`. No target depends on it: linked into the program it would count
        // in every benchmark.
        .library(name: "ConvoyBenchCounter", type: .dynamic, targets: ["CCounter"]),
    ],
    dependencies: [
        .package(name: "Convoy", path: ".."),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    ],
    targets: [
        .executableTarget(
            name: "ConvoyBench",
            dependencies: [
                "CHeap",
                "CCurlLoop",
                "CSQLiteLoop",
                .product(name: "Convoy", package: "Convoy"),
                .product(name: "ConvoyCache", package: "Convoy"),
                .product(name: "ConvoyPostgres", package: "Convoy"),
                .product(name: "ConvoyQueue", package: "Convoy"),
                .product(name: "ConvoyTesting", package: "Convoy"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
            ],
            path: "Sources/convoy-bench"
        ),
        .target(name: "CHeap"),
        .target(name: "CCounter", linkerSettings: [.linkedLibrary("dl", .when(platforms: [.linux]))]),
        // The system's own library by its file name, as Convoy has it.
        .target(name: "CCurlLoop", linkerSettings: [.linkedLibrary(":libcurl.so.4", .when(platforms: [.linux]))]),
        .target(name: "CSQLiteLoop", linkerSettings: [.linkedLibrary(":libsqlite3.so.0", .when(platforms: [.linux]))]),
    ],
    swiftLanguageModes: [.v6]
)
