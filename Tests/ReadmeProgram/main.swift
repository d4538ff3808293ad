import Convoy
import Foundation

let manager = RequestManager()
let addresses = ["https://www.swift.org", "https://curl.se", "https://example.invalid"]
let batch = manager.batch(addresses.map { Request<Data>.get($0) })
for await progress in batch.progress { print(progress.finishedCount, "of", addresses.count) }
for (address, result) in zip(addresses, await batch.results) {
    switch result {
    case .success(let response): print(address, response.statusCode, response.value.count, "bytes")
    case .failure(let error): print(address, error.message)
    }
}
