// swift-tools-version: 6.2
// The only place of the project with dependencies: the peers that Convoy is measured against.
import PackageDescription

let package = Package(
    name: "convoy-benchmarks",
    platforms: [.macOS(.v15)],
    products: [.executable(name: "convoy-bench", targets: ["ConvoyBench"])],
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
                .product(name: "Convoy", package: "Convoy"),
                .product(name: "ConvoyTesting", package: "Convoy"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
            ],
            path: "Sources/convoy-bench"
        ),
        .target(name: "CHeap"),
    ],
    swiftLanguageModes: [.v6]
)
