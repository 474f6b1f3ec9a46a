//! A metered stream is the stream: nothing is lost or doubled, whatever is cancelled, whichever way it is used.

use super::{alter, governor, group, pipe, read_to_end};
use proptest::prelude::*;
use quotient::io::Metered;
use std::io::IoSlice;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn counted_is_what_passed_and_no_more() {
    let governor = governor(&[("g", "cpu_core_limit=1")]);
    let g = group(&governor, "g");
    let (mut stream, mut far) = pipe(&g);
    stream.write_all(b"abcdef").await.unwrap();
    stream.flush().await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(stream.write_all(b"late").await.is_err());
    let mut word = [0; 6];
    far.read_exact(&mut word).await.unwrap();
    far.write_all(b"xyz").await.unwrap();
    drop(far);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!((&word, rest.as_str()), (b"abcdef", "xyz"));
    let usage = g.usage();
    assert_eq!(
        (usage.io_read_bytes, usage.io_written_bytes, usage.io_bytes),
        (3, 6, 9)
    );
    assert_eq!(usage.io_throttled, Duration::ZERO);
    let page = governor.render_metrics();
    for line in [
        "quotient_group_io_bytes_total{group=\"g\",direction=\"read\"} 3",
        "quotient_group_io_bytes_total{group=\"g\",direction=\"write\"} 6",
        "quotient_group_io_throttled_seconds_total{group=\"g\"} 0",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn both_halves_of_a_split_stream_work_while_the_other_waits() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1000000")]);
    let g = group(&governor, "g");
    let (stream, far) = pipe(&g);
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (mut far_reader, mut far_writer) = tokio::io::split(far);
    let sent: Vec<u8> = (0..300_000_u32).map(|i| i as u8).collect();
    let (a, b) = (sent.clone(), sent.clone());
    let (mut got, mut back) = (vec![0; sent.len()], vec![0; sent.len()]);
    let all = async {
        tokio::join!(
            async { writer.write_all(&a).await.unwrap() },
            async { far_writer.write_all(&b).await.unwrap() },
            async { reader.read_exact(&mut got).await.unwrap() },
            async { far_reader.read_exact(&mut back).await.unwrap() },
        )
    };
    all.await;
    assert!(got == sent && back == sent);
    assert_eq!(g.usage().io_bytes, 600_000);
    assert_eq!(
        reader
            .unsplit(writer)
            .into_inner()
            .write(b"x")
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        g.usage().io_bytes,
        600_000,
        "what passes the stream itself is not counted"
    );
}

#[tokio::test(start_paused = true)]
async fn vectored_writes_stay_vectored() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1000")]);
    let g = group(&governor, "g");
    let (mut stream, far) = pipe(&g);
    assert!(stream.is_write_vectored() && stream.get_ref().is_write_vectored());
    let bufs = [&b"0123456789"[..], b"", b"abcdefghij", b"KLMNOPQRST"].map(IoSlice::new);
    // 20 bytes are a turn: the first three slices.
    assert_eq!(stream.write_vectored(&bufs).await.unwrap(), 20);
    assert_eq!(stream.write_vectored(&bufs[3..]).await.unwrap(), 10);
    assert_eq!(
        stream.write_vectored(&[IoSlice::new(b"")]).await.unwrap(),
        0
    );
    let long = [0; 50];
    assert_eq!(
        stream.write_vectored(&[IoSlice::new(&long)]).await.unwrap(),
        20
    );
    drop(stream);
    let got = read_to_end(far).await;
    assert!(got.starts_with(b"0123456789abcdefghijKLMNOPQRST"));
    assert_eq!((got.len(), g.usage().io_written_bytes), (50, 50));
}

#[tokio::test(start_paused = true)]
async fn a_read_into_spare_capacity_and_into_nothing() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1000")]);
    let (mut stream, mut far) = pipe(&group(&governor, "g"));
    far.write_all(&[5; 100]).await.unwrap();
    assert_eq!(stream.read(&mut []).await.unwrap(), 0);
    let mut buf = Vec::with_capacity(64);
    buf.extend_from_slice(b"kept");
    let mut read = 0;
    while read < 60 {
        read += stream.read_buf(&mut buf).await.unwrap();
    }
    assert_eq!(buf.len(), 64 - 60 + read);
    assert!(buf.starts_with(b"kept") && buf[4..].iter().all(|&byte| byte == 5));
}

/// One way through: operations that are given up after some time, at every await, with a rate that changes.
async fn give_up_often(patience: &[u64], rates: &[u64]) {
    let governor = governor(&[("g", "max_io_bytes_per_second=50000")]);
    let g = group(&governor, "g");
    // The far end takes and gives little at a time: streams wait for their peer, too.
    let (near, far) = tokio::io::duplex(1_000);
    let (mut far_reader, mut far_writer) = tokio::io::split(far);
    let sent: Vec<u8> = (0..20_000_u32).map(|i| (i % 251) as u8).collect();
    let feed = sent.clone();
    let feed = tokio::spawn(async move { far_writer.write_all(&feed).await.unwrap() });
    let drain = tokio::spawn(async move {
        let mut all = vec![0; 20_000];
        far_reader.read_exact(&mut all).await.unwrap();
        all
    });
    let mut stream = Metered::in_group(&g, near);
    let mut patience = patience.iter().copied().cycle().map(Duration::from_micros);
    let mut rates = rates.iter().cycle();
    let (mut got, mut written) = (Vec::new(), 0);
    let mut turn = 0_u64;
    while got.len() < sent.len() || written < sent.len() {
        turn += 1;
        if turn.is_multiple_of(50) {
            alter(&governor, "g", &rates.next().unwrap().to_string()).await;
        }
        let mut buf = [0; 700];
        if got.len() < sent.len()
            && let Ok(read) = timeout(patience.next().unwrap(), stream.read(&mut buf)).await
        {
            got.extend_from_slice(&buf[..read.unwrap()]);
        }
        let rest = &sent[written..];
        if !rest.is_empty()
            && let Ok(some) = timeout(patience.next().unwrap(), stream.write(rest)).await
        {
            written += some.unwrap();
        }
    }
    assert!(got == sent);
    feed.await.unwrap();
    assert!(drain.await.unwrap() == sent);
    let usage = g.usage();
    assert_eq!(
        (usage.io_read_bytes, usage.io_written_bytes),
        (20_000, 20_000)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn whatever_is_given_up_every_byte_arrives_once_and_is_counted_once(
        patience in proptest::collection::vec(0_u64..30_000, 1..20),
        rates in proptest::collection::vec(20_000_u64..5_000_000, 1..4),
    ) {
        // A patience of nothing only would never get anywhere.
        prop_assume!(patience.iter().any(|&time| time > 15_000));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(give_up_often(&patience, &rates));
    }
}
