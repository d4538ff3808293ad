import Convoy
import Foundation

let urls = ["https://www.swift.org", "https://curl.se", "https://example.invalid"]
let batch = RequestManager().batch(urls.map { Request<Data>.get($0) })
for (url, result) in zip(urls, await batch.results) {
    switch result {
    case .success(let response): print(url, response.statusCode, response.value.count, "bytes")
    case .failure(let error): print(url, error.message)
    }
}
