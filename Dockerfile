# dpsidecar: one static binary, no shell, not root.
# The machine that builds compiles for the one that the image is for.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
COPY sql sql
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags '-s -w' -o /dpsidecar ./cmd/dpsidecar

FROM gcr.io/distroless/static-debian12:nonroot
COPY LICENSE /LICENSE
COPY --from=build /dpsidecar /dpsidecar
USER 65532:65532
ENTRYPOINT ["/dpsidecar"]
CMD ["serve"]
